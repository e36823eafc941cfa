-- Part of scripts that hand out jobs: who is due, and how a job is handed out. A stretch of the line
-- is a tenant, a queue and a letter: the jobs in it stand in the order they are wanted.
-- uses    heads

-- How many jobs one script moves between those that are due and those that are due later.
local MOST_MOVES = 1000
local move_count = 0

local LETTERS = {'O', 'S', 'o', 's'}

-- A server without memory refuses a script whose first write takes some, and no other. Here that is
-- the first each time: what nobody could write the end of is not handed out.

-- Lets those join the line whose time has come; false when there are more than one script moves.
local function let_in(now)
  local due = redis.call('ZRANGEBYLEX', LATER, '-', '(' .. now .. '~', 'LIMIT', 0, MOST_MOVES)
  if #due == 0 then return true end
  local ids, future, ready, timetable = {}, {}, {}, {}
  for at, member in ipairs(due) do ids[at] = string.sub(member, INSTANT_LENGTH + 1) end
  for at, text in ipairs(get_all(HEADS, ids)) do
    local head, id = read_head(text), ids[at]
    local place = place_of(id, head)
    future[at], ready[2 * at - 1], ready[2 * at] = place, '0', place
    if is_prompt(head) then timetable[#timetable + 1] = lane_of(head) .. head[DUE] .. id end
  end
  in_parts('ZADD', READY, ready)
  in_parts('ZREM', LATER, due)
  in_parts('ZREM', FUTURE, future)
  in_parts('ZREM', TIMETABLE, timetable)
  return #due < MOST_MOVES
end

-- One whose time has not come any more, because a clock was set back, leaves the line.
local function send_away(id, head, place)
  move_count = move_count + 1
  redis.call('ZADD', LATER, '0', head[DUE] .. id)
  redis.call('ZADD', FUTURE, '0', place)
  redis.call('ZADD', TIMETABLE, '0', lane_of(head) .. head[DUE] .. id)
  redis.call('ZREM', READY, place)
end

-- The next `most` jobs of a stretch behind `from` that are due, and where they end, unless that is
-- the end of the stretch. When too many had to leave the line, nobody is found.
local function look_along(stretch, from, most, now)
  local found = {}
  while from and #found < most do
    local wanted = most - #found
    local places = redis.call(
      'ZRANGEBYLEX', READY, '(' .. from, '(' .. stretch .. '~', 'LIMIT', 0, wanted)
    local ids = {}
    for at, place in ipairs(places) do ids[at] = string.sub(place, -ID_LENGTH) end
    for at, text in ipairs(get_all(HEADS, ids)) do
      local head, id, place = read_head(text), ids[at], places[at]
      if head[DUE] <= now then
        found[#found + 1] = {id = id, head = head, place = place}
      else
        send_away(id, head, place)
        if move_count > MOST_MOVES then return {} end
      end
    end
    from = #places == wanted and places[wanted] or nil
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

-- Hands out jobs, each with its id, head and place; whoever calls it takes them out of the line.
local function hand_out(taken, now, till, worker)
  local ids, texts, heads, running, leased, tallies = {}, {}, {}, {}, {}, {}
  if #taken == 0 then return {ids, {}, {}} end
  for at, job in ipairs(taken) do
    local id, head, even = job.id, job.head, 2 * at
    head[CODE], head[TOKEN] = 'U', next_token(head[TOKEN])
    head[UPDATED], head[UNTIL], head[WORKER], head[TAKEN] = now, till, worker, now
    local text, field = write_head(head), 'U' .. lane_of(head)
    ids[at], texts[at] = id, text
    heads[even - 1], heads[even] = id, text
    running[even - 1], running[even] = '0', job.place
    leased[even - 1], leased[even] = '0', till .. id
    tallies[field] = (tallies[field] or 0) + 1
  end
  in_parts('HSET', HEADS, heads)
  in_parts('ZADD', RUNNING, running)
  in_parts('ZADD', LEASED, leased)
  tally(tallies)
  redis.call('HINCRBY', COUNTERS, 'leases', 1)
  return {ids, texts, get_all(BODIES, ids)}
end

-- Names that were chosen, as a set; nothing when all are.
local function as_set(text)
  if text == '' then return nil end
  local set = {}
  for _, name in ipairs(cjson.decode(text)) do set[name] = true end
  return set
end
