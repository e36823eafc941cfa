-- Part of every script about jobs: the keys, in the order of keys.py, and what a head says. A script
-- defines all this anew whenever it runs, so here is only what nearly all of them need.
local HEADS, BODIES, READY, LATER, TIMETABLE, LEASED = unpack(KEYS)
local ENDED, CHILDREN, OPEN, IDENTITIES, ATTEMPTS, CASCADES, COUNTS, COUNTERS, WAKE =
  unpack(KEYS, 14)
local FUTURE, RUNNING, COMPLETED = KEYS[8], KEYS[9], KEYS[10]

-- The texts that a head is made of, as rows.py has them.
local CODE, TOKEN, DUE, UPDATED, UNTIL, WORKER, TAKEN, MOVED = 1, 2, 3, 4, 5, 6, 7, 8
local TENANT, QUEUE, RANK, CREATED, PARENTS, IDENTITY, AWAITED, SORT = 9, 10, 11, 12, 13, 14, 15, 16

local INSTANT_LENGTH, ID_LENGTH = 27, 36
local PROMPT, PUT_OFF = {o = 'o', s = 's'}, {o = 'O', s = 'S'}

local read_head, write_head = cmsgpack.unpack, cmsgpack.pack

-- Many entries of one key in few calls: a call for each would take several times as long.
local function in_parts(command, key, parts)
  for at = 1, #parts, 1000 do
    redis.call(command, key, unpack(parts, at, math.min(at + 999, #parts)))
  end
end

-- What a hash has under these names, in their order; false where it has nothing.
local function get_all(key, names)
  local found = {}
  if #names == 0 then return found end
  if #names <= 1000 then return redis.call('HMGET', key, unpack(names)) end
  for at = 1, #names, 1000 do
    local last = math.min(at + 999, #names)
    local some = redis.call('HMGET', key, unpack(names, at, last))
    for place = 1, last - at + 1 do found[at + place - 1] = some[place] end
  end
  return found
end

local function lane_of(head)
  return head[TENANT] .. '\0' .. head[QUEUE] .. '\0'
end

-- Whether a job was due from its creation on: then its place in the line tells since when.
local function is_prompt(head)
  return head[DUE] == head[CREATED]
end

-- Where a job stands, in the line as in every listing.
local function place_of(id, head)
  local letters = is_prompt(head) and PROMPT or PUT_OFF
  return head[TENANT] .. '\0' .. head[QUEUE] .. '\0' .. letters[head[SORT]] .. head[RANK]
    .. head[CREATED] .. id
end

-- Adds to the numbers in `counts`, and keeps none that is nothing.
local function tally(tallies)
  for field, by in pairs(tallies) do
    if by ~= 0 and redis.call('HINCRBY', COUNTS, field, by) == 0 then
      redis.call('HDEL', COUNTS, field)
    end
  end
end
