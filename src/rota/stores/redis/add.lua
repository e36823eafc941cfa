-- add: create READY jobs without dependencies, all or none
-- KEYS    those of additions, as keys.py lists them
-- ARGV    now; the message for listeners; then for each job its id, head, body and place; '' if it
--         is due and was from its creation on, else when it is due; '' or its identity
-- reply   1; or 0, and nothing is written, if one of them exists or its identity is taken
-- atomic  because no twin may come between the comparison and the write
-- It does what `commit` does, without all that other jobs need. Medians of four alternating runs, in
-- server CPU: a single job 1.8 times as fast as by `commit`, each of 500 at once 1.4 times. A single
-- plain job takes 0.84 of what it would take among others.
local HEADS, BODIES, READY, LATER, TIMETABLE, FUTURE, IDENTITIES, WAKE = unpack(KEYS)
local now = ARGV[1]

-- One job that is due and has no identity, as most have, needs none of what follows.
if #ARGV == 8 and ARGV[7] == '' and ARGV[8] == '' then
  if redis.call('HSETNX', HEADS, ARGV[3], ARGV[4]) == 0 then return 0 end
  redis.call('HSET', BODIES, ARGV[3], ARGV[5])
  redis.call('ZADD', READY, '0', ARGV[6])
  redis.call('PUBLISH', WAKE, ARGV[2])
  return 1
end

-- What follows the partition in a place: letter, rank, created and id.
local TAIL_LENGTH = 1 + 2 + 27 + 36

local function in_parts(command, key, parts)
  for at = 1, #parts, 1000 do
    redis.call(command, key, unpack(parts, at, math.min(at + 999, #parts)))
  end
end

local function is_any_there(key, fields)
  for at = 1, #fields, 1000 do
    local last = math.min(at + 999, #fields)
    for _, found in ipairs(redis.call('HMGET', key, unpack(fields, at, last))) do
      if found then return true end
    end
  end
  return false
end

local ids, heads, bodies, names, owners = {}, {}, {}, {}, {}
local ready, later, future, timetable = {}, {}, {}, {}
local length = 0
for at = 3, #ARGV, 6 do
  local id, head, body, place, due, identity = unpack(ARGV, at, at + 5)
  ids[length / 2 + 1] = id
  heads[length + 1], heads[length + 2] = id, head
  bodies[length + 1], bodies[length + 2] = id, body
  length = length + 2
  if due <= now then  -- also if it is empty
    ready[#ready + 1] = '0'
    ready[#ready + 1] = place
  else
    later[#later + 1] = '0'
    later[#later + 1] = due .. id
    future[#future + 1] = '0'
    future[#future + 1] = place
  end
  if due ~= '' then
    timetable[#timetable + 1] = '0'
    timetable[#timetable + 1] = string.sub(place, 1, -TAIL_LENGTH - 1) .. due .. id
  end
  if identity ~= '' then
    names[#names + 1] = identity
    owners[#owners + 1] = identity
    owners[#owners + 1] = id
  end
end

if is_any_there(HEADS, ids) or is_any_there(IDENTITIES, names) then return 0 end
in_parts('HSET', HEADS, heads)
in_parts('HSET', BODIES, bodies)
in_parts('HSET', IDENTITIES, owners)
in_parts('ZADD', READY, ready)
in_parts('ZADD', LATER, later)
in_parts('ZADD', FUTURE, future)
in_parts('ZADD', TIMETABLE, timetable)
redis.call('PUBLISH', WAKE, ARGV[2])
return 1
