-- next_due: when the first READY job is due
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the queues as a JSON array; '' or the tenants as one
-- reply   the instant, now or later; nil if there is no READY job
-- atomic  because a job that moves between two partitions must not be missed. Bounded by the
--         partitions with READY jobs
-- uses    ready
-- uses    timing
local now = ARGV[1]

local queues, tenants = as_set(ARGV[2]), as_set(ARGV[3])
if not queues and not tenants then
  -- The usual question has a quick answer: the first job in `ready` is due, or there is none.
  local first = redis.call('ZRANGEBYLEX', READY, '-', '+', 'LIMIT', 0, 1)[1]
  if not first then
    local later = redis.call('ZRANGEBYLEX', LATER, '-', '+', 'LIMIT', 0, 1)[1]
    local due = later and string.sub(later, 1, INSTANT_LENGTH)
    return due and due < now and now or due
  end
  if read_head(redis.call('HGET', HEADS, string.sub(first, -ID_LENGTH)))[DUE] <= now then
    return now
  end
end
local earliest

local function note(tenant, queue, due)
  if tenants and not tenants[tenant] or queues and not queues[queue] then return end
  if not earliest or due < earliest then earliest = due end
end

each_due(note)
return earliest and earliest < now and now or earliest
