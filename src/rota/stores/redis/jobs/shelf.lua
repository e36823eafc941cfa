-- Part of every script about jobs: how a job is filed under the keys, and taken out again. The keys
-- come in the order of keys.py. What becomes of a job is decided elsewhere; here it is found again.
local HEADS, BODIES, READY, LATER, TIMETABLE, LEASED = unpack(KEYS)
local ENDED, CHILDREN, OPEN, IDENTITIES, ATTEMPTS, CASCADES, COUNTS, COUNTERS, WAKE =
  unpack(KEYS, 14)
local LISTINGS = {P = KEYS[7], R = KEYS[8], U = KEYS[9], C = KEYS[10], F = KEYS[11], D = KEYS[12],
  B = KEYS[13]}

-- The texts that a head is made of, as rows.py has them.
local CODE, TOKEN, DUE, UPDATED, UNTIL, WORKER, TAKEN, MOVED = 1, 2, 3, 4, 5, 6, 7, 8
local TENANT, QUEUE, RANK, CREATED, AGE, PARENTS, IDENTITY, AWAITED = 9, 10, 11, 12, 13, 14, 15, 16
local SORT = 17

local INSTANT_LENGTH, ID_LENGTH = 27, 36
local COUNTED = {U = true, D = true}
local TERMINAL = {C = true, F = true, D = true, B = true}

-- What a script writes it gathers, and writes together in the end: a call for each entry would take
-- several times as long. Whoever reads one of these sets before that has to write first.
local members, bodies, tallies = {}, {}, {}
local heads, encoded, gone = {}, {}, {}

local function add(key, member)
  members[key] = members[key] or {}
  members[key][member] = true
end

local function drop(key, member)
  members[key] = members[key] or {}
  members[key][member] = false
end

local function get_head(id)
  local head = heads[id]
  if head == nil then
    head = redis.call('HGET', HEADS, id)
    head = head and cjson.decode(head)
    heads[id] = head
  end
  return head
end

-- Writes a head; `text` is its JSON, where that is at hand.
local function put_head(id, head, text)
  heads[id] = head
  encoded[id] = text or true
end

local function has_head(id)
  if heads[id] ~= nil then return heads[id] and true end
  return redis.call('HEXISTS', HEADS, id) == 1
end

local function drop_head(id)
  heads[id], encoded[id], bodies[id] = false, nil, nil
  gone[#gone + 1] = id
end

local function in_parts(command, key, parts)
  for at = 1, #parts, 1000 do
    redis.call(command, key, unpack(parts, at, math.min(at + 999, #parts)))
  end
end

local function write_members(key, wanted)
  local added, dropped = {}, {}
  for member, is_in in pairs(wanted) do
    if is_in then
      added[#added + 1] = 0
      added[#added + 1] = member
    else
      dropped[#dropped + 1] = member
    end
  end
  in_parts('ZADD', key, added)
  in_parts('ZREM', key, dropped)
end

-- Writes all that has been gathered.
local function write_out()
  local pairs_of_heads, pairs_of_bodies = {}, {}
  for id, text in pairs(encoded) do
    pairs_of_heads[#pairs_of_heads + 1] = id
    pairs_of_heads[#pairs_of_heads + 1] = text == true and cjson.encode(heads[id]) or text
  end
  for id, body in pairs(bodies) do
    pairs_of_bodies[#pairs_of_bodies + 1] = id
    pairs_of_bodies[#pairs_of_bodies + 1] = body
  end
  in_parts('HDEL', HEADS, gone)
  in_parts('HDEL', BODIES, gone)
  in_parts('HSET', HEADS, pairs_of_heads)
  in_parts('HSET', BODIES, pairs_of_bodies)
  for key, wanted in pairs(members) do write_members(key, wanted) end
  for field, by in pairs(tallies) do
    if by ~= 0 and redis.call('HINCRBY', COUNTS, field, by) == 0 then
      redis.call('HDEL', COUNTS, field)
    end
  end
  members, bodies, tallies, encoded, gone = {}, {}, {}, {}, {}
end

local function lane_of(head)
  return head[TENANT] .. '\0' .. head[QUEUE] .. '\0'
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

local function in_line(id, head)
  return lane_of(head) .. head[RANK] .. head[CREATED] .. id
end

local function in_listing(id, head)
  return lane_of(head) .. head[RANK] .. head[SORT] .. head[AGE] .. id
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

-- Files a job wherever one with its code is looked for. A READY one wakes whoever waits for it.
local function file(id, head, now)
  local code = head[CODE]
  add(LISTINGS[code], in_listing(id, head))
  if COUNTED[code] then count(head, 1) end
  if code == 'R' then
    add(TIMETABLE, lane_of(head) .. head[DUE] .. id)
    if head[DUE] <= now then
      add(READY, in_line(id, head))
    else
      add(LATER, head[DUE] .. id)
    end
    wake(head)
  elseif code == 'U' then
    add(LEASED, head[UNTIL] .. id)
  elseif TERMINAL[code] and not has_children(id) then
    add(ENDED, head[UPDATED] .. id)
  end
end

-- Takes a job out of all that `file` put it into.
local function take_out(id, head)
  local code = head[CODE]
  drop(LISTINGS[code], in_listing(id, head))
  if COUNTED[code] then count(head, -1) end
  if code == 'R' then
    drop(TIMETABLE, lane_of(head) .. head[DUE] .. id)
    drop(READY, in_line(id, head))
    drop(LATER, head[DUE] .. id)
  elseif code == 'U' then
    drop(LEASED, head[UNTIL] .. id)
  elseif TERMINAL[code] then
    drop(ENDED, head[UPDATED] .. id)
  end
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

-- Keeps a job that was not there before; `text` is its head as JSON.
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
  local shown_heads, shown_bodies = {}, {}
  for at = 1, #ids, 1000 do
    local last = math.min(at + 999, #ids)
    local some_heads = redis.call('HMGET', HEADS, unpack(ids, at, last))
    local some_bodies = redis.call('HMGET', BODIES, unpack(ids, at, last))
    for place = 1, last - at + 1 do
      shown_heads[at + place - 1] = some_heads[place]
      shown_bodies[at + place - 1] = some_bodies[place]
    end
  end
  return {ids, shown_heads, shown_bodies}
end
