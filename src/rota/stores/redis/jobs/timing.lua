-- Part of scripts that ask since when or from when on jobs are due.
-- uses    heads

-- Visits tenants, queues and when a READY job of theirs is due; the first of each lane is among
-- them. `lane` is the queue's part of the timetable, or one priority's of the line, where jobs are
-- that have been due since their creation. Bounded by the lanes, and ten priorities.
local function each_due(visit)
  local member = redis.call('ZRANGEBYLEX', TIMETABLE, '-', '+', 'LIMIT', 0, 1)[1]
  while member do
    local lane, tenant, queue = string.match(member, '^(([^%z]*)%z([^%z]*)%z)')
    visit(tenant, queue, string.sub(member, #lane + 1, #lane + INSTANT_LENGTH), TIMETABLE, lane)
    member = redis.call('ZRANGEBYLEX', TIMETABLE, '(' .. lane .. '~', '+', 'LIMIT', 0, 1)[1]
  end
  member = redis.call('ZRANGEBYLEX', READY, '-', '+', 'LIMIT', 0, 1)[1]
  while member do
    local lane, tenant, queue, letter = string.match(member, '^(([^%z]*)%z([^%z]*)%z(%a)%d%d)')
    if PROMPT[letter] then
      visit(tenant, queue, string.sub(member, #lane + 1, #lane + INSTANT_LENGTH), READY, lane)
    end
    member = redis.call('ZRANGEBYLEX', READY, '(' .. lane .. '~', '+', 'LIMIT', 0, 1)[1]
  end
end
