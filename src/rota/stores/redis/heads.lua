-- Part of every script about jobs: the keys, in the order of keys.py, and how to read a head. Each
-- run defines all this again, so it holds only what nearly all scripts need.
local HEADS, BODIES, READY, LATER, TIMETABLE, LEASED, FUTURE, RUNNING = unpack(KEYS)
local COUNTERS, IDENTITIES, WAKE, PARKED, _, COMPLETED = unpack(KEYS, 9)
local ENDED, CHILDREN, PARENTS, ATTEMPTS, RESULTS, INTENT, ENDS = unpack(KEYS, 18)

-- The texts of a head, as Head in rows.py names them.
local CODE, TOKEN, DUE, UPDATED, UNTIL, WORKER, TAKEN, TRIALS = 1, 2, 3, 4, 5, 6, 7, 8
local SLOT, IDENTITY, LINKS = 9, 10, 11

local INSTANT_LENGTH, ID_LENGTH = 27, 36
-- What follows the partition in a slot: letter, rank and created.
local TAIL_LENGTH = 1 + 2 + INSTANT_LENGTH

local read_head, write_head = cmsgpack.unpack, cmsgpack.pack

-- Many entries of one key in few calls: one call for each takes several times as long.
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

-- Whether another job depends or once depended on the job.
local function is_awaited(head)
  return string.sub(head[LINKS], 1, 1) == 'a'
end

-- The tenant and the queue, each with a NUL behind it.
local function partition_of(head)
  return string.sub(head[SLOT], 1, -TAIL_LENGTH - 1)
end

-- Whether a job was due from its creation on: then its letter is small, and its place says since
-- when.
local function is_prompt(head)
  return string.byte(head[SLOT], -TAIL_LENGTH) >= 97
end
