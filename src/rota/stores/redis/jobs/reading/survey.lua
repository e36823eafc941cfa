-- survey: how full each queue is
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the tenant
-- reply   for parts of the READY jobs their queue, how many are due, how many later, and since when
--         the first; the names and numbers of `counts`, by turns; the tenants and queues of jobs
--         whose leases have run out, by turns
-- atomic  because all is as of one moment. Bounded by the lanes and the leases that ran out
-- uses    shelf
-- uses    timing
local now, only = ARGV[1], ARGV[2]
local lanes, stalled = {}, {}
each_due(function(tenant, queue, first, key, lane)
  if only ~= '' and tenant ~= only then return end
  local due = redis.call('ZLEXCOUNT', key, '[' .. lane, '(' .. lane .. now .. '~')
  local all = redis.call('ZLEXCOUNT', key, '[' .. lane, '(' .. lane .. '~')
  lanes[#lanes + 1] = {queue, due, all - due, first}
end)
for _, lease in ipairs(redis.call('ZRANGEBYLEX', LEASED, '-', '(' .. now)) do
  local head = get_head(string.sub(lease, INSTANT_LENGTH + 1))
  stalled[#stalled + 1] = head[TENANT]
  stalled[#stalled + 1] = head[QUEUE]
end
return {lanes, redis.call('HGETALL', COUNTS), stalled}
