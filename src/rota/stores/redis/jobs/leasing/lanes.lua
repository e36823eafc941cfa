-- lanes: the lanes with a due job, and how many jobs run
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the queues as a JSON array; '' or the tenants as one
-- reply   nil when more jobs have come due than one script moves: call again. Else how often jobs
--         were handed out so far; the tenants and queues of the lanes, by turns; and the names and
--         numbers of `counts`, by turns
-- atomic  because what it answers is compared, by that first number, with what is so when jobs are
--         handed out. Bounded by the lanes and MOST_MOVES
-- uses    line
local now = ARGV[1]

local queues, tenants = as_set(ARGV[2]), as_set(ARGV[3])
if not let_in(now) then return false end
local found = {}
local stretch, tenant, queue = next_stretch('', '+')
while stretch do
  local behind = stretch .. '~'
  if tenants and not tenants[tenant] then
    behind = tenant .. '\0\255'
  elseif not queues or queues[queue] then
    if #look_along(stretch, stretch, 1, now) > 0 then
      found[#found + 1] = tenant
      found[#found + 1] = queue
      behind = tenant .. '\0' .. queue .. '\0~'
    end
  end
  stretch, tenant, queue = next_stretch(behind, '+')
end
if move_count > MOST_MOVES then return false end
return {redis.call('HGET', COUNTERS, 'leases') or '0', found, redis.call('HGETALL', COUNTS)}
