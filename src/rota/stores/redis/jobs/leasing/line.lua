-- Part of scripts that hand out jobs: who is due, and how a job is handed out. Uses shelf. A stretch
-- of the line is a tenant, a queue and a letter: the jobs in it stand in the order they are wanted.

-- How many jobs one script moves between those that are due and those that are due later.
local MOST_MOVES = 1000
local move_count = 0

local LETTERS = {'O', 'S', 'o', 's'}

-- Lets those join the line whose time has come; false when there are more than one script moves.
local function let_in(now)
  local due = redis.call('ZRANGEBYLEX', LATER, '-', '(' .. now .. '~', 'LIMIT', 0, MOST_MOVES)
  if #due == 0 then return true end
  local ids = {}
  for at, member in ipairs(due) do ids[at] = string.sub(member, INSTANT_LENGTH + 1) end
  fetch_heads(ids)
  for at, id in ipairs(ids) do
    local head = get_head(id)
    local place = place_of(id, head)
    drop(LATER, due[at])
    drop(FUTURE, place)
    add(READY, place)
    if is_prompt(head) then drop(TIMETABLE, lane_of(head) .. head[DUE] .. id) end
  end
  write_out()
  return #due < MOST_MOVES
end

-- One whose time has not come any more, because a clock was set back, leaves the line.
local function send_away(id, head, place)
  move_count = move_count + 1
  redis.call('ZREM', READY, place)
  redis.call('ZADD', LATER, '0', head[DUE] .. id)
  redis.call('ZADD', FUTURE, '0', place)
  redis.call('ZADD', TIMETABLE, '0', lane_of(head) .. head[DUE] .. id)
end

-- The next `most` jobs of a stretch behind `from` that are due, and where they end. When too many
-- had to leave the line, nobody is found.
local function look_along(stretch, from, most, now)
  local found = {}
  while #found < most do
    local places = redis.call(
      'ZRANGEBYLEX', READY, '(' .. from, '(' .. stretch .. '~', 'LIMIT', 0, most - #found)
    if #places == 0 then break end
    local ids = {}
    for at, place in ipairs(places) do ids[at] = string.sub(place, -ID_LENGTH) end
    fetch_heads(ids)
    for at, place in ipairs(places) do
      from = place
      local id = ids[at]
      local head = get_head(id)
      if head[DUE] <= now then
        found[#found + 1] = {
          id = id, head = head, place = place, tail = string.sub(place, #stretch + 1)}
      else
        send_away(id, head, place)
        if move_count > MOST_MOVES then return {}, from end
      end
    end
  end
  return found, from
end

-- The first stretch of the line behind `from` and before `till`, with its tenant and queue.
local function next_stretch(from, till)
  local place = redis.call('ZRANGEBYLEX', READY, '(' .. from, till, 'LIMIT', 0, 1)[1]
  if not place then return nil end
  local tenant, queue, letter = string.match(place, '^([^%z]*)%z([^%z]*)%z(%a)')
  return tenant .. '\0' .. queue .. '\0' .. letter, tenant, queue
end

local tokens = {}

-- The token after this one.
local function next_token(token)
  local following = tokens[token]
  if not following then
    following = string.format('%.0f', tonumber(token) + 1)
    tokens[token] = following
  end
  return following
end

-- Hands a job out; `place` is where it stands in the line, when it is known to stand there.
local function grant(id, head, now, till, worker, place)
  if place then
    drop(READY, place)
    if not is_prompt(head) then drop(TIMETABLE, lane_of(head) .. head[DUE] .. id) end
  else
    place = take_out(id, head)
  end
  head[CODE], head[TOKEN] = 'U', next_token(head[TOKEN])
  head[UPDATED], head[UNTIL], head[WORKER], head[TAKEN] = now, till, worker, now
  put_head(id, head)
  file(id, head, now, place)
end

local function grant_all(taken, now, till, worker)
  local ids, texts = {}, {}
  if #taken == 0 then return {ids, {}, {}} end
  for at, job in ipairs(taken) do
    grant(job.id, job.head, now, till, worker, job.place)
    ids[at] = job.id
  end
  write_out()
  for at, id in ipairs(ids) do texts[at] = kept[id] end
  redis.call('HINCRBY', COUNTERS, 'leases', 1)
  return {ids, texts, get_bodies(ids)}
end

-- Names that were chosen, as a set; nothing when all are.
local function as_set(text)
  if text == '' then return nil end
  local set = {}
  for _, name in ipairs(cjson.decode(text)) do set[name] = true end
  return set
end
