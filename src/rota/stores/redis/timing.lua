-- Part of scripts that ask what partitions have: how many jobs, and when the first is due.
-- uses    heads

-- Visits tenants, queues and when a READY job of theirs is due; the first of each partition is among
-- them. `range` is the partition's part of the timetable; or that of one priority in `ready`, where
-- jobs are that have been due since their creation. Bounded by the partitions, and ten priorities.
local function each_due(visit)
  local member = redis.call('ZRANGEBYLEX', TIMETABLE, '-', '+', 'LIMIT', 0, 1)[1]
  while member do
    local range, tenant, queue = string.match(member, '^(([^%z]*)%z([^%z]*)%z)')
    visit(tenant, queue, string.sub(member, #range + 1, #range + INSTANT_LENGTH), TIMETABLE, range)
    member = redis.call('ZRANGEBYLEX', TIMETABLE, '(' .. range .. '~', '+', 'LIMIT', 0, 1)[1]
  end
  member = redis.call('ZRANGEBYLEX', READY, '-', '+', 'LIMIT', 0, 1)[1]
  while member do
    local range, tenant, queue, letter = string.match(member, '^(([^%z]*)%z([^%z]*)%z(%a)%d%d)')
    if letter == string.lower(letter) then
      visit(tenant, queue, string.sub(member, #range + 1, #range + INSTANT_LENGTH), READY, range)
    end
    member = redis.call('ZRANGEBYLEX', READY, '(' .. range .. '~', '+', 'LIMIT', 0, 1)[1]
  end
end

-- Tenant, queue and number of each partition, one after the other. Bounded by the partitions.
local function count_partitions(key)
  local counts = {}
  local member = redis.call('ZRANGEBYLEX', key, '-', '+', 'LIMIT', 0, 1)[1]
  while member do
    local range, tenant, queue = string.match(member, '^(([^%z]*)%z([^%z]*)%z)')
    local number = redis.call('ZLEXCOUNT', key, '[' .. range, '(' .. range .. '~')
    counts[#counts + 1] = {tenant, queue, number}
    member = redis.call('ZRANGEBYLEX', key, '(' .. range .. '~', '+', 'LIMIT', 0, 1)[1]
  end
  return counts
end
