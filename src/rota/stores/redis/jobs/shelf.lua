-- Part of scripts that change jobs: how a job is filed under the keys, and taken out again. What
-- becomes of a job is decided elsewhere; here it is found again.
-- uses    heads

-- READY jobs are in two: R is the line itself, and L are those that are due later.
local LISTINGS = {P = KEYS[7], R = READY, L = FUTURE, U = RUNNING, C = COMPLETED, F = KEYS[11],
  D = KEYS[12], B = KEYS[13]}
local COUNTED = {U = true, D = true}
local TERMINAL = {C = true, F = true, D = true, B = true}

-- What a script writes it gathers, and writes together in the end. Whoever reads one of these sets
-- before that has to write first.
local runs, bodies, tallies = {}, {}, {}
local heads, kept, changed, gone = {}, {}, {}, {}

-- What is put into a set, or taken out of it, goes into one call until it is the other's turn.
local function run_of(command, key)
  local run = runs[key]
  if run and run.command == command then return run end
  if run then in_parts(run.command, key, run) end
  run = {command = command, length = 0}
  runs[key] = run
  return run
end

local function add(key, member)
  local run = run_of('ZADD', key)
  local length = run.length
  run[length + 1], run[length + 2], run.length = '0', member, length + 2
end

local function drop(key, member)
  local run = run_of('ZREM', key)
  local length = run.length + 1
  run[length], run.length = member, length
end

-- Reads the heads of many jobs at once.
local function fetch_heads(ids)
  local found = get_all(HEADS, ids)
  for place, id in ipairs(ids) do kept[id] = found[place] end
end

local function get_head(id)
  local head = heads[id]
  if head == nil then
    local text = kept[id]
    if text == nil then text = redis.call('HGET', HEADS, id) end
    head = text and read_head(text)
    heads[id] = head
  end
  return head
end

-- Writes a head; `text` is how it is kept, where that is at hand.
local function put_head(id, head, text)
  heads[id] = head
  changed[id] = text or true
end

local function has_head(id)
  if heads[id] ~= nil then return heads[id] and true end
  if kept[id] ~= nil then return kept[id] and true end
  return redis.call('HEXISTS', HEADS, id) == 1
end

local function drop_head(id)
  heads[id], changed[id], bodies[id] = false, nil, nil
  gone[#gone + 1] = id
end

-- Writes what is taken out of sets.
local function write_drops()
  for key, run in pairs(runs) do
    if run.command == 'ZREM' then
      in_parts('ZREM', key, run)
      runs[key] = nil
    end
  end
end

-- Writes all that has been gathered.
local function write_out()
  local pairs_of_heads, pairs_of_bodies, length = {}, {}, 0
  for id, text in pairs(changed) do
    if text == true then text = write_head(heads[id]) end
    kept[id] = text
    pairs_of_heads[length + 1], pairs_of_heads[length + 2] = id, text
    length = length + 2
  end
  length = 0
  for id, body in pairs(bodies) do
    pairs_of_bodies[length + 1], pairs_of_bodies[length + 2] = id, body
    length = length + 2
  end
  in_parts('HDEL', HEADS, gone)
  in_parts('HDEL', BODIES, gone)
  write_drops()
  in_parts('HSET', HEADS, pairs_of_heads)
  in_parts('HSET', BODIES, pairs_of_bodies)
  for key, run in pairs(runs) do in_parts(run.command, key, run) end
  tally(tallies)
  runs, bodies, tallies, changed, gone = {}, {}, {}, {}, {}
end

-- Where no job depends on another, nothing has to be looked up for each of them.
local has_edges = {}

local function has_any(key)
  if has_edges[key] == nil then has_edges[key] = redis.call('EXISTS', key) == 1 end
  return has_edges[key]
end

local function has_children(id)
  if not has_any(CHILDREN) then return false end
  local found = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. id, '(' .. id .. '~', 'LIMIT', 0, 1)
  return #found > 0
end

local function count(head, by)
  local field = head[CODE] .. lane_of(head)
  tallies[field] = (tallies[field] or 0) + by
end

-- Where there is something to lease since this script began.
local woken, places = {}, {}

local function wake(head)
  local lane = lane_of(head)
  if not woken[lane] then
    woken[lane] = true
    places[#places + 1] = {head[QUEUE], head[TENANT]}
  end
end

-- Tells whoever listens, and gives what the sender's own listeners are to be told.
local function ring(sender)
  if #places == 0 then return '' end
  local message = cjson.encode(places)
  redis.call('PUBLISH', WAKE, sender .. message)
  return message
end

-- Files a READY job in the line, or with those that are due later.
local function line_up(id, head, now, place)
  local is_due = head[DUE] <= now
  if is_due then
    add(READY, place)
  else
    add(LATER, head[DUE] .. id)
    add(FUTURE, place)
  end
  if not is_due or not is_prompt(head) then add(TIMETABLE, lane_of(head) .. head[DUE] .. id) end
  wake(head)
end

-- Files a job wherever one with its code is looked for. A READY one wakes whoever waits for it.
-- `place` is where it stands, when that is known.
local function file(id, head, now, place)
  local code = head[CODE]
  place = place or place_of(id, head)
  if COUNTED[code] then count(head, 1) end
  if code == 'R' then return line_up(id, head, now, place) end
  add(LISTINGS[code], place)
  if code == 'U' then
    add(LEASED, head[UNTIL] .. id)
  elseif TERMINAL[code] and not has_children(id) then
    add(ENDED, head[UPDATED] .. id)
  end
end

-- Takes a job out of all that `file` put it into; where it stood.
local function take_out(id, head)
  local code, place = head[CODE], place_of(id, head)
  if COUNTED[code] then count(head, -1) end
  if code == 'R' then
    drop(READY, place)
    drop(LATER, head[DUE] .. id)
    drop(FUTURE, place)
    drop(TIMETABLE, lane_of(head) .. head[DUE] .. id)
    return place
  end
  drop(LISTINGS[code], place)
  if code == 'U' then
    drop(LEASED, head[UNTIL] .. id)
  elseif TERMINAL[code] then
    drop(ENDED, head[UPDATED] .. id)
  end
  return place
end

local function each_parent(head)
  return string.gmatch(head[PARENTS], '%S+')
end

-- Ties a job to those it depends on, and counts those it waits for. Their heads must be written.
local function link(id, head)
  local awaited = 0
  for parent in each_parent(head) do
    redis.call('ZADD', CHILDREN, 0, parent .. id)
    has_edges[CHILDREN] = true
    local its = get_head(parent)
    if TERMINAL[its[CODE]] then drop(ENDED, its[UPDATED] .. parent) end
    if head[CODE] == 'P' and its[CODE] ~= 'C' then
      awaited = awaited + 1
      redis.call('ZADD', OPEN, 0, parent .. id)
      has_edges[OPEN] = true
    end
  end
  head[AWAITED] = tostring(awaited)
end

-- Unties a job from those it depends on; one that ended and has no others may go from then on.
local function unlink(id, head)
  for parent in each_parent(head) do
    redis.call('ZREM', CHILDREN, parent .. id)
    redis.call('ZREM', OPEN, parent .. id)
    local its = get_head(parent)
    if its and TERMINAL[its[CODE]] and not has_children(parent) then
      add(ENDED, its[UPDATED] .. parent)
    end
  end
end

-- Keeps a job that was not there before; `text` is its head as it is kept.
local function keep(id, head, text, body, now)
  put_head(id, head, text)
  bodies[id] = body
  if head[IDENTITY] ~= '' then redis.call('HSET', IDENTITIES, head[IDENTITY], id) end
  if head[PARENTS] ~= '' then
    link(id, head)
    put_head(id, head)
  end
  file(id, head, now)
end

-- Leaves nothing of a job.
local function remove(id, head)
  take_out(id, head)
  unlink(id, head)
  drop_head(id)
  if head[IDENTITY] ~= '' then redis.call('HDEL', IDENTITIES, head[IDENTITY]) end
  redis.call('ZREMRANGEBYLEX', ATTEMPTS, '[' .. id, '(' .. id .. '~')
end

-- Jobs as they are kept.
local function show(ids)
  return {ids, get_all(HEADS, ids), get_all(BODIES, ids)}
end
