-- Part of every script about jobs: how a job is filed under the keys, and taken out again. The keys
-- come in the order of keys.py. What becomes of a job is decided elsewhere; here it is found again.
local HEADS, BODIES, READY, LATER, TIMETABLE, LEASED, LISTING, ENDED, CHILDREN, OPEN, IDENTITIES,
  ATTEMPTS, CASCADES, COUNTS, COUNTERS, WAKE = unpack(KEYS)

-- The texts that a head is made of, as rows.py has them.
local CODE, TOKEN, DUE, UPDATED, UNTIL, WORKER, TAKEN, MOVED = 1, 2, 3, 4, 5, 6, 7, 8
local TENANT, QUEUE, RANK, CREATED, AGE, PARENTS, IDENTITY, AWAITED = 9, 10, 11, 12, 13, 14, 15, 16
local SORT = 17

local INSTANT_LENGTH, ID_LENGTH = 27, 36
local COUNTED = {U = true, D = true}
local TERMINAL = {C = true, F = true, D = true, B = true}

local function get_head(id)
  local head = redis.call('HGET', HEADS, id)
  return head and cjson.decode(head)
end

local function put_head(id, head)
  redis.call('HSET', HEADS, id, cjson.encode(head))
end

local function lane_of(head)
  return head[TENANT] .. '\0' .. head[QUEUE] .. '\0'
end

local function has_children(id)
  local found = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. id, '(' .. id .. '~', 'LIMIT', 0, 1)
  return #found > 0
end

local function in_line(id, head)
  return lane_of(head) .. head[RANK] .. head[CREATED] .. id
end

local function in_listing(id, head)
  local lane = head[TENANT] .. '\0' .. head[CODE] .. head[QUEUE] .. '\0' .. head[RANK] .. head[SORT]
  return lane .. head[AGE] .. id
end

local function count(head, by)
  local field = head[CODE] .. lane_of(head)
  if redis.call('HINCRBY', COUNTS, field, by) == 0 then redis.call('HDEL', COUNTS, field) end
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
  redis.call('ZADD', LISTING, 0, in_listing(id, head))
  if COUNTED[code] then count(head, 1) end
  if code == 'R' then
    redis.call('ZADD', TIMETABLE, 0, lane_of(head) .. head[DUE] .. id)
    if head[DUE] <= now then
      redis.call('ZADD', READY, 0, in_line(id, head))
    else
      redis.call('ZADD', LATER, 0, head[DUE] .. id)
    end
    wake(head)
  elseif code == 'U' then
    redis.call('ZADD', LEASED, 0, head[UNTIL] .. id)
  elseif TERMINAL[code] and not has_children(id) then
    redis.call('ZADD', ENDED, 0, head[UPDATED] .. id)
  end
end

-- Takes a job out of all that `file` put it into.
local function take_out(id, head)
  local code = head[CODE]
  redis.call('ZREM', LISTING, in_listing(id, head))
  if COUNTED[code] then count(head, -1) end
  if code == 'R' then
    redis.call('ZREM', TIMETABLE, lane_of(head) .. head[DUE] .. id)
    if redis.call('ZREM', READY, in_line(id, head)) == 0 then
      redis.call('ZREM', LATER, head[DUE] .. id)
    end
  elseif code == 'U' then
    redis.call('ZREM', LEASED, head[UNTIL] .. id)
  elseif TERMINAL[code] then
    redis.call('ZREM', ENDED, head[UPDATED] .. id)
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
    local its = get_head(parent)
    if TERMINAL[its[CODE]] then redis.call('ZREM', ENDED, its[UPDATED] .. parent) end
    if head[CODE] == 'P' and its[CODE] ~= 'C' then
      awaited = awaited + 1
      redis.call('ZADD', OPEN, 0, parent .. id)
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
      redis.call('ZADD', ENDED, 0, its[UPDATED] .. parent)
    end
  end
end

-- Keeps a job that was not there before.
local function keep(id, head, body, now)
  put_head(id, head)
  redis.call('HSET', BODIES, id, body)
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
  redis.call('HDEL', HEADS, id)
  redis.call('HDEL', BODIES, id)
  if head[IDENTITY] ~= '' then redis.call('HDEL', IDENTITIES, head[IDENTITY]) end
  redis.call('ZREMRANGEBYLEX', ATTEMPTS, '[' .. id, '(' .. id .. '~')
end

local function show(ids)
  local heads, bodies = {}, {}
  for place, id in ipairs(ids) do
    heads[place] = redis.call('HGET', HEADS, id)
    bodies[place] = redis.call('HGET', BODIES, id)
  end
  return {ids, heads, bodies}
end
