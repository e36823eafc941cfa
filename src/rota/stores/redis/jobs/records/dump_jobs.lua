-- dump_jobs: jobs of one listing, whosoever they are
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the code of the listing; '' or the member behind which it begins; the most jobs; the most
--         bytes (one job may exceed them)
-- reply   how many cascades are under way; the last member, or ''; the ids, heads and bodies; for
--         each its attempts
-- atomic  because a job and its attempts are as of one moment
-- uses    shelf
local first = ARGV[2] == '' and '-' or '(' .. ARGV[2]
local key = LISTINGS[ARGV[1]]
local members = key and redis.call('ZRANGEBYLEX', key, first, '+', 'LIMIT', 0, ARGV[3]) or {}
local ids, some_heads, some_bodies, attempts = {}, {}, {}, {}
local size, last = 0, ''
for place, member in ipairs(members) do
  if size > tonumber(ARGV[4]) then break end
  local id = string.sub(member, -ID_LENGTH)
  last, ids[place] = member, id
  some_heads[place] = redis.call('HGET', HEADS, id)
  some_bodies[place] = redis.call('HGET', BODIES, id) or ''
  attempts[place] = redis.call('ZRANGEBYLEX', ATTEMPTS, '[' .. id, '(' .. id .. '~')
  size = size + #some_heads[place] + #some_bodies[place]
end
return {redis.call('ZCARD', CASCADES), last, ids, some_heads, some_bodies, attempts}
