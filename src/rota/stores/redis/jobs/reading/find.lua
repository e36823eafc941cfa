-- find: a page of a tenant's jobs, the newest first
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; the codes; '' or the queue; the lowest and the highest rank; the sorts; the
--         ages and ids behind which and before which to look; how many
-- reply   the ids, heads and bodies
-- atomic  because the order and the jobs are as of one moment. Bounded by the lanes and what is
--         asked for
-- uses    shelf
-- uses    listing
local tails = {}
each_lane(function(key, lane)
  local members = redis.call('ZRANGEBYLEX', key,
    '(' .. lane .. ARGV[7], '(' .. lane .. ARGV[8], 'LIMIT', 0, ARGV[9])
  for _, member in ipairs(members) do tails[#tails + 1] = string.sub(member, #lane + 1) end
end, unpack(ARGV, 1, 6))
table.sort(tails)
local ids = {}
for place = 1, math.min(#tails, tonumber(ARGV[9])) do
  ids[place] = string.sub(tails[place], -ID_LENGTH)
end
return show(ids)
