-- expired: jobs whose lease has run out, the longest ago first
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the until and id of the last one before; how many
-- reply   the ids, heads and bodies
-- atomic  because the order and the jobs are as of one moment
-- uses    shelf
local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
local ids = {}
for place, member in ipairs(
  redis.call('ZRANGEBYLEX', LEASED, from, '(' .. ARGV[1], 'LIMIT', 0, ARGV[3])) do
  ids[place] = string.sub(member, INSTANT_LENGTH + 1)
end
return show(ids)
