-- survey: how full each queue is
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the tenant
-- reply   for parts of the READY jobs their queue, how many are due, how many later, and since when
--         the first; then tenants, queues and numbers of RUNNING jobs, of dead letters, and of jobs
--         whose leases have expired
-- atomic  because all is as of one moment. Bounded by the partitions and the expired leases
-- uses    timing
local now, only, DEAD = ARGV[1], ARGV[2], KEYS[16]
local parts, ids, stalled = {}, {}, {}
each_due(function(tenant, queue, first, key, range)
  if only ~= '' and tenant ~= only then return end
  local due = redis.call('ZLEXCOUNT', key, '[' .. range, '(' .. range .. now .. '~')
  local all = redis.call('ZLEXCOUNT', key, '[' .. range, '(' .. range .. '~')
  parts[#parts + 1] = {queue, due, all - due, first}
end)
for at, lease in ipairs(redis.call('ZRANGEBYLEX', LEASED, '-', '(' .. now)) do
  ids[at] = string.sub(lease, INSTANT_LENGTH + 1)
end
for at, text in ipairs(get_all(HEADS, ids)) do
  local tenant, queue = string.match(read_head(text)[SLOT], '^([^%z]*)%z([^%z]*)')
  stalled[at] = {tenant, queue, 1}
end
return {parts, count_partitions(RUNNING), count_partitions(DEAD), stalled}
