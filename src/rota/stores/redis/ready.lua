-- Part of scripts that lease jobs: which jobs are due, and how a job is leased. A range of `ready`
-- is a tenant, a queue and a letter; its jobs are in the order in which they are leased.
-- uses    heads

-- How many jobs one script moves between the jobs that are due and those that are due later.
local MOST_MOVES = 1000
local move_count = 0

-- A server without memory refuses a script whose first write takes some. Here that is the first
-- write each time: a job whose end could not be written is not leased.

-- Moves jobs into `ready` whose time has come; false if there are more than one script moves.
local function mark_due(now)
  local due = redis.call('ZRANGEBYLEX', LATER, '-', '(' .. now .. '~', 'LIMIT', 0, MOST_MOVES)
  if #due == 0 then return true end
  local ids, future, ready, timetable = {}, {}, {}, {}
  for at, member in ipairs(due) do ids[at] = string.sub(member, INSTANT_LENGTH + 1) end
  for at, text in ipairs(get_all(HEADS, ids)) do
    local head, id = read_head(text), ids[at]
    local place = head[SLOT] .. id
    future[at], ready[2 * at - 1], ready[2 * at] = place, '0', place
    if is_prompt(head) then timetable[#timetable + 1] = partition_of(head) .. head[DUE] .. id end
  end
  in_parts('ZADD', READY, ready)
  in_parts('ZREM', LATER, due)
  in_parts('ZREM', FUTURE, future)
  in_parts('ZREM', TIMETABLE, timetable)
  return #due < MOST_MOVES
end

-- Moves a job out of `ready` that is not due any more because a clock was set back.
local function mark_later(id, head, place)
  move_count = move_count + 1
  redis.call('ZADD', LATER, '0', head[DUE] .. id)
  redis.call('ZADD', FUTURE, '0', place)
  redis.call('ZADD', TIMETABLE, '0', partition_of(head) .. head[DUE] .. id)
  redis.call('ZREM', READY, place)
end

-- The next `most` due jobs of a range behind `from`; and the last place that was read, unless
-- that is the end of the range. No jobs if too many had to be moved.
local function look_along(range, from, most, now)
  local found = {}
  while from and #found < most do
    local wanted = most - #found
    local places = redis.call(
      'ZRANGEBYLEX', READY, '(' .. from, '(' .. range .. '~', 'LIMIT', 0, wanted)
    local ids = {}
    for at, place in ipairs(places) do ids[at] = string.sub(place, -ID_LENGTH) end
    for at, text in ipairs(get_all(HEADS, ids)) do
      local head, id, place = read_head(text), ids[at], places[at]
      if head[DUE] <= now then
        found[#found + 1] = {id = id, head = head, place = place}
      else
        mark_later(id, head, place)
        if move_count > MOST_MOVES then return {} end
      end
    end
    from = #places == wanted and places[wanted] or nil
  end
  return found, from
end

-- The first range behind `from` and before `till`, with its tenant and queue.
local function next_range(from, till)
  local place = redis.call('ZRANGEBYLEX', READY, '(' .. from, till, 'LIMIT', 0, 1)[1]
  if not place then return nil end
  local tenant, queue, letter = string.match(place, '^([^%z]*)%z([^%z]*)%z(%a)')
  return tenant .. '\0' .. queue .. '\0' .. letter, tenant, queue
end

local tokens = {}

local function next_token(token)
  local following = tokens[token]
  if not following then
    following = string.format('%.0f', tonumber(token) + 1)
    tokens[token] = following
  end
  return following
end

local function lease_head(head, now, till, worker)
  head[CODE], head[TOKEN] = 'U', next_token(head[TOKEN])
  head[UPDATED], head[UNTIL], head[WORKER], head[TAKEN] = now, till, worker, now
  return write_head(head)
end

-- Leases jobs, each with its id, head and place; the caller takes them out of `ready`.
local function lease_all(taken, bodies, now, till, worker)
  local ids, texts, heads, running, leased = {}, {}, {}, {}, {}
  if #taken == 0 then return {ids, {}, {}} end
  for at, job in ipairs(taken) do
    local id, even, text = job.id, 2 * at, lease_head(job.head, now, till, worker)
    ids[at], texts[at] = id, text
    heads[even - 1], heads[even] = id, text
    running[even - 1], running[even] = '0', job.place
    leased[even - 1], leased[even] = '0', till .. id
  end
  in_parts('HSET', HEADS, heads)
  in_parts('ZADD', RUNNING, running)
  in_parts('ZADD', LEASED, leased)
  redis.call('HINCRBY', COUNTERS, 'leases', 1)
  return {ids, texts, bodies}
end

-- Chosen names as a set; nil if all are chosen.
local function as_set(text)
  if text == '' then return nil end
  local set = {}
  for _, chosen in ipairs(cjson.decode(text)) do set[chosen] = true end
  return set
end
