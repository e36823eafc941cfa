-- survey: how full each queue is
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the tenant
-- reply   for each lane with READY jobs its queue, how many are due, how many later, and since when
--         the first; the names and numbers of `counts`, by turns; the tenants and queues of jobs
--         whose leases have run out, by turns
-- atomic  because all is as of one moment. Bounded by the lanes and the leases that ran out
-- uses    shelf
local now, only = ARGV[1], ARGV[2]
local lanes, stalled = {}, {}
local from, till = '-', '+'
if only ~= '' then from, till = '[' .. only .. '\0', '(' .. only .. '\1' end
local member = redis.call('ZRANGEBYLEX', TIMETABLE, from, till, 'LIMIT', 0, 1)[1]
while member do
  local lane, queue = string.match(member, '^([^%z]*%z([^%z]*)%z)')
  local first = string.sub(member, #lane + 1, #lane + INSTANT_LENGTH)
  local due = redis.call('ZLEXCOUNT', TIMETABLE, '[' .. lane, '(' .. lane .. now .. '~')
  local all = redis.call('ZLEXCOUNT', TIMETABLE, '[' .. lane, '(' .. lane .. '~')
  lanes[#lanes + 1] = {queue, due, all - due, first}
  member = redis.call('ZRANGEBYLEX', TIMETABLE, '(' .. lane .. '~', till, 'LIMIT', 0, 1)[1]
end
for _, lease in ipairs(redis.call('ZRANGEBYLEX', LEASED, '-', '(' .. now)) do
  local head = get_head(string.sub(lease, INSTANT_LENGTH + 1))
  stalled[#stalled + 1] = head[TENANT]
  stalled[#stalled + 1] = head[QUEUE]
end
return {lanes, redis.call('HGETALL', COUNTS), stalled}
