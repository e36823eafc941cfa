-- read: jobs by id and by identity
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    how many ids follow; the ids; the identities
-- reply   how often dependencies were amended so far; the ids, heads and bodies of the jobs, heads
--         and bodies nil where there is none
-- atomic  because heads and bodies belong together, and all are as of one moment
-- uses    heads
local ids = {}
for at = 2, #ARGV do
  local id = ARGV[at]
  if at > ARGV[1] + 1 then id = redis.call('HGET', IDENTITIES, id) end
  if id then ids[#ids + 1] = id end
end
return {redis.call('HGET', COUNTERS, 'graph') or '0', show(ids)}
