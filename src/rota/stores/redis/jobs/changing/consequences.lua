-- Part of scripts that end jobs: what an end means for those that wait. Uses shelf.
--
-- An entry of `open` is one dependency that a PENDING job waits for. Each is taken out once, which
-- is what releases a job exactly once. When one script has told enough of them, the jobs whose
-- dependents are still to be told are noted in `cascades`, and the next script goes on there.
local MOST_TOLD = 500
local told_count = 0

local function move(id, head, code, now)
  take_out(id, head)
  head[CODE], head[UPDATED] = code, now
  put_head(id, head)
  file(id, head, now)
end

local function stop_waiting(id, head)
  for parent in each_parent(head) do
    redis.call('ZREM', OPEN, parent .. id)
    told_count = told_count + 1
  end
  head[AWAITED] = '0'
end

-- Tells the dependents of those in `ended` that they ended, and so on; notes what is left undone.
local function tell(began, root, ended, now, released, blocked)
  if not has_any(OPEN) then return true end
  while #ended > 0 do
    local parent = ended[#ended]
    local its = get_head(parent)
    local is_good = its and its[CODE] == 'C'
    local edges = redis.call(
      'ZRANGEBYLEX', OPEN, '[' .. parent, '(' .. parent .. '~', 'LIMIT', 0, 100)
    if #edges == 0 then
      ended[#ended] = nil
      redis.call('ZREM', CASCADES, began .. root .. parent)
    end
    for _, edge in ipairs(edges) do
      local id = string.sub(edge, ID_LENGTH + 1)
      local head = get_head(id)
      redis.call('ZREM', OPEN, edge)
      told_count = told_count + 1
      if is_good then
        head[AWAITED] = tostring(tonumber(head[AWAITED]) - 1)
        if head[AWAITED] == '0' then
          move(id, head, 'R', now)
          released[#released + 1] = id
        else
          put_head(id, head)
        end
      else
        stop_waiting(id, head)
        move(id, head, 'B', now)
        blocked[#blocked + 1] = id
        ended[#ended + 1] = id
      end
    end
    if told_count >= MOST_TOLD and #ended > 0 then
      for _, each in ipairs(ended) do redis.call('ZADD', CASCADES, 0, began .. root .. each) end
      return false
    end
  end
  return true
end
