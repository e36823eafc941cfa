-- add: keep new jobs that are READY and depend on nobody, all or none
-- KEYS    those of additions, as keys.py lists them
-- ARGV    now; what listeners are told; then for each job its id, head, body and where it stands, in
--         the line as in every listing; '' or when it is due, unless its place tells that it is; ''
--         or its identity
-- reply   nil when one of them is there, or its identity is taken; else 1
-- atomic  because no twin may come between the comparison and the writing. What it takes grows with
--         the jobs: that is what was asked for
-- It does what `insert` does, without all that it would have to define for jobs of other sorts.
local HEADS, BODIES, READY, LATER, TIMETABLE, FUTURE, IDENTITIES, WAKE = unpack(KEYS)
local now = ARGV[1]
-- What follows the lane where a job stands: letter, rank, created and id.
local TAIL_LENGTH = 1 + 2 + 27 + 36

local ids, heads, bodies, names, owners = {}, {}, {}, {}, {}
local line, later, future, timetable = {}, {}, {}, {}
local length = 0
for at = 3, #ARGV, 6 do
  local id, place, due, identity = ARGV[at], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  ids[length / 2 + 1] = id
  heads[length + 1], heads[length + 2] = id, ARGV[at + 1]
  bodies[length + 1], bodies[length + 2] = id, ARGV[at + 2]
  length = length + 2
  if due == '' or due <= now then
    line[#line + 1] = '0'
    line[#line + 1] = place
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

local function is_any_there(key, fields)
  for at = 1, #fields, 1000 do
    local last = math.min(at + 999, #fields)
    for _, found in ipairs(redis.call('HMGET', key, unpack(fields, at, last))) do
      if found then return true end
    end
  end
  return false
end

local function in_parts(command, key, parts)
  for at = 1, #parts, 1000 do
    redis.call(command, key, unpack(parts, at, math.min(at + 999, #parts)))
  end
end

if is_any_there(HEADS, ids) or is_any_there(IDENTITIES, names) then return false end
in_parts('HSET', HEADS, heads)
in_parts('HSET', BODIES, bodies)
in_parts('HSET', IDENTITIES, owners)
in_parts('ZADD', READY, line)
in_parts('ZADD', LATER, later)
in_parts('ZADD', FUTURE, future)
in_parts('ZADD', TIMETABLE, timetable)
redis.call('PUBLISH', WAKE, ARGV[2])
return 1
