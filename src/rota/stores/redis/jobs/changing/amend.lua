-- amend: change fields of a job, if it is still as it was read
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; the sender; the job's id, its head and its body as they were read, and as they shall
--         be; '' or how often dependencies had been amended when they were read; then for each
--         dependency its id, tenant and code
-- reply   nil when something is not as it was: read again. Or the id of the job that has the key
--         under the new kind. Else the places where there is something to lease, and 1 when not all
--         who depend on the job have been told that it is blocked
-- atomic  because what was decided holds only while job and dependencies are as they were. That no
--         other dependencies were amended meanwhile keeps two callers from closing a circle
-- uses    shelf
-- uses    consequences
local now, id = ARGV[1], ARGV[3]
if redis.call('HGET', HEADS, id) ~= ARGV[4] then return false end
if redis.call('HGET', BODIES, id) ~= ARGV[5] then return false end
if ARGV[8] ~= '' and (redis.call('HGET', COUNTERS, 'graph') or '0') ~= ARGV[8] then return false end
for at = 9, #ARGV, 3 do
  local head = get_head(ARGV[at])
  if not head or head[TENANT] ~= ARGV[at + 1] or head[CODE] ~= ARGV[at + 2] then return false end
end
local before, after = read_head(ARGV[4]), read_head(ARGV[6])
if after[IDENTITY] ~= before[IDENTITY] then
  local twin = redis.call('HGET', IDENTITIES, after[IDENTITY])
  if twin then return twin end
  redis.call('HDEL', IDENTITIES, before[IDENTITY])
  redis.call('HSET', IDENTITIES, after[IDENTITY], id)
end
take_out(id, before)
after[AWAITED] = before[AWAITED]
if after[PARENTS] ~= before[PARENTS] then
  unlink(id, before)
  link(id, after)
  redis.call('HINCRBY', COUNTERS, 'graph', 1)
end
put_head(id, after)
bodies[id] = ARGV[7]
file(id, after, now)
local is_done = not TERMINAL[after[CODE]] or tell(now, id, {id}, now, {}, {})
write_out()
return {ring(ARGV[2]), is_done and 0 or 1}
