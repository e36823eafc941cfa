-- Part of scripts that hand out jobs: who is due, and how a job is handed out. Uses shelf.

-- How many jobs one script moves between those that are due and those that are due later.
local MOST_MOVES = 1000
local move_count = 0

-- Lets those join the line whose time has come; false when there are more than one script moves.
local function let_in(now)
  local due = redis.call('ZRANGEBYLEX', LATER, '-', '(' .. now .. '~', 'LIMIT', 0, MOST_MOVES)
  for _, member in ipairs(due) do
    local id = string.sub(member, INSTANT_LENGTH + 1)
    redis.call('ZREM', LATER, member)
    redis.call('ZADD', READY, 0, in_line(id, get_head(id)))
  end
  return #due < MOST_MOVES
end

-- The next `most` jobs of a lane behind `from` that are due, and where they end. One that is not,
-- because a clock was set back, leaves the line; when too many have left, nobody is found.
local function look_along(lane, from, most, now)
  local found = {}
  while #found < most do
    local members = redis.call(
      'ZRANGEBYLEX', READY, '(' .. from, '(' .. lane .. '~', 'LIMIT', 0, most - #found)
    if #members == 0 then break end
    for _, member in ipairs(members) do
      from = member
      local id = string.sub(member, -ID_LENGTH)
      local head = get_head(id)
      if head[DUE] <= now then
        found[#found + 1] = {id = id, head = head, tail = string.sub(member, #lane + 1)}
      else
        move_count = move_count + 1
        redis.call('ZREM', READY, member)
        redis.call('ZADD', LATER, 0, head[DUE] .. id)
        if move_count > MOST_MOVES then return {}, from end
      end
    end
  end
  return found, from
end

-- The name of the first lane behind `from` and before `till`, with its tenant and queue.
local function next_lane(key, from, till)
  local member = redis.call('ZRANGEBYLEX', key, '(' .. from, till, 'LIMIT', 0, 1)[1]
  if not member then return nil end
  local tenant, queue = string.match(member, '^([^%z]*)%z([^%z]*)%z')
  return tenant .. '\0' .. queue .. '\0', tenant, queue
end

-- Hands a job out.
local function grant(id, head, now, till, worker)
  take_out(id, head)
  head[CODE] = 'U'
  head[TOKEN] = string.format('%.0f', tonumber(head[TOKEN]) + 1)
  head[UPDATED], head[UNTIL], head[WORKER], head[TAKEN] = now, till, worker, now
  put_head(id, head)
  file(id, head, now)
end

local function grant_all(taken, now, till, worker)
  local ids = {}
  for place, job in ipairs(taken) do
    grant(job.id, job.head, now, till, worker)
    ids[place] = job.id
  end
  write_out()
  if #ids > 0 then redis.call('HINCRBY', COUNTERS, 'leases', 1) end
  return show(ids)
end

-- Names that were chosen, as a set; nothing when all are.
local function as_set(text)
  if text == '' then return nil end
  local set = {}
  for _, name in ipairs(cjson.decode(text)) do set[name] = true end
  return set
end
