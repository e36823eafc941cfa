-- insert: keep new jobs, all or none
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; the sender; how many dependencies follow; for each its id, tenant and code; then for
--         each job its id, head and body. Without a job something is written all the same: replicas
--         that have it have what was there before, too
-- reply   nil when something is no longer as it was when the statuses of the jobs were decided: one
--         of them is there, or its key is taken, or a dependency has moved. Else the places where
--         there is something to lease
-- atomic  because no dependency may end, and no twin come, between the decision and the writing.
--         What it takes grows with the jobs: that is what was asked for
-- uses    shelf
local now, dependency_count = ARGV[1], tonumber(ARGV[3])
local first = 4 + dependency_count * 3
for at = 4, first - 1, 3 do
  local head = get_head(ARGV[at])
  if not head or head[TENANT] ~= ARGV[at + 1] or head[CODE] ~= ARGV[at + 2] then return false end
end
if first > #ARGV then redis.call('HINCRBY', COUNTERS, 'graph', 0) end
local new, ids = {}, {}
for at = first, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
fetch_heads(ids)
for at = first, #ARGV, 3 do
  local head = read_head(ARGV[at + 1])
  if has_head(ARGV[at]) then return false end
  local key = head[IDENTITY]
  if key ~= '' and redis.call('HEXISTS', IDENTITIES, key) == 1 then return false end
  new[at] = head
end
for at = first, #ARGV, 3 do put_head(ARGV[at], new[at], ARGV[at + 1]) end
for at = first, #ARGV, 3 do keep(ARGV[at], new[at], ARGV[at + 1], ARGV[at + 2], now) end
write_out()
return ring(ARGV[2])
