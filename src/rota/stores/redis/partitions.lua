-- partitions: the partitions with a due job, and how many jobs run in each
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the queues as a JSON array; '' or the tenants as one
-- reply   nil if more jobs have come due than one script moves: call again. Else the number of
--         leases so far; the tenants and queues of the partitions; and the tenants, queues and
--         numbers of RUNNING jobs
-- atomic  because take.lua compares that number of leases with the one at its own moment. Bounded by
--         the partitions and MOST_MOVES
-- uses    ready
-- uses    timing
local now = ARGV[1]
local queues, tenants = as_set(ARGV[2]), as_set(ARGV[3])
if not mark_due(now) then return false end
local found = {}
local range, tenant, queue = next_range('', '+')
while range do
  local behind = range .. '~'
  if tenants and not tenants[tenant] then
    behind = tenant .. '\0\255'
  elseif not queues or queues[queue] then
    if #look_along(range, range, 1, now) > 0 then
      found[#found + 1] = {tenant, queue}
      behind = tenant .. '\0' .. queue .. '\0~'
    end
  end
  range, tenant, queue = next_range(behind, '+')
end
if move_count > MOST_MOVES then return false end
return {redis.call('HGET', COUNTERS, 'leases') or '0', found, count_partitions(RUNNING)}
