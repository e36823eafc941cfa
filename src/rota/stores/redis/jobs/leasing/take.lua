-- take: hand out the jobs that were chosen, if nothing has changed since
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; until when; the worker; how often jobs had been handed out when they were chosen, or
--         '' when that does not matter; then for each job its id, tenant and queue
-- reply   nil when another was handed out, or one of them is not there to be taken any more: choose
--         again. Else the ids, heads and bodies
-- atomic  because limits hold only while nobody else is handed a job in between
-- uses    shelf
-- uses    line
local now = ARGV[1]
if ARGV[4] ~= '' and (redis.call('HGET', COUNTERS, 'leases') or '0') ~= ARGV[4] then return false end
local taken = {}
for at = 5, #ARGV, 3 do
  local head = get_head(ARGV[at])
  if not head or head[CODE] ~= 'R' or head[DUE] > now then return false end
  if head[TENANT] ~= ARGV[at + 1] or head[QUEUE] ~= ARGV[at + 2] then return false end
  taken[#taken + 1] = {id = ARGV[at], head = head}
end
return grant_all(taken, now, ARGV[2], ARGV[3])
