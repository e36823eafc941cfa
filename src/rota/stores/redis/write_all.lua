-- write_all: apply all writes, or none
-- KEYS    those of documents, as keys.py lists them, and the list in which a stream was gathered
-- ARGV    '1' if nothing is to be written in any case; how long the list must be; the last writes,
--         which were not gathered, each as write_each.lua says
-- reply   nil, or the name and the expected version of the first write that was stale; or 'lost'
--         if the list is not as it was left, and nothing is written
-- atomic  so that no reader sees some of the writes without the others. Takes a dozen commands for
--         each hundred writes
local gathered = redis.call('LLEN', KEYS[4])
local PART_LENGTH = 400

-- Visits all writes in order, a hundred at a time, until a visit returns something.
local function each_part(visit)
  for at = 0, gathered - 1, PART_LENGTH do
    local found = visit(redis.call('LRANGE', KEYS[4], at, at + PART_LENGTH - 1))
    if found then return found end
  end
  for at = 3, #ARGV, PART_LENGTH do
    local found = visit({unpack(ARGV, at, math.min(at + PART_LENGTH - 1, #ARGV))})
    if found then return found end
  end
  return false
end

local seen = {}

-- The first write of a part that is stale; a write sees those before it.
local function find_stale(parts)
  local names = {}
  for at = 1, #parts, 4 do names[#names + 1] = parts[at] end
  local found = redis.call('HMGET', KEYS[2], unpack(names))
  for place, name in ipairs(names) do
    local expected, version = parts[place * 4 - 2], parts[place * 4 - 1]
    if (seen[name] or found[place] or '') ~= expected then return {name, expected} end
    seen[name] = version == '0' and '' or version
  end
  return false
end

-- Writes the last state of each document of a part.
local function write_part(parts)
  local last = {}
  for at = 1, #parts, 4 do last[parts[at]] = at end
  local names, versions, bodies, gone = {}, {}, {}, {}
  for name, at in pairs(last) do
    if parts[at + 2] == '0' then
      gone[#gone + 1] = name
    else
      local place = #names
      names[place + 1], names[place + 2] = 0, name
      versions[place + 1], versions[place + 2] = name, parts[at + 2]
      bodies[place + 1], bodies[place + 2] = name, parts[at + 3]
    end
  end
  if #names > 0 then
    redis.call('ZADD', KEYS[1], unpack(names))
    redis.call('HSET', KEYS[2], unpack(versions))
    redis.call('HSET', KEYS[3], unpack(bodies))
  end
  if #gone > 0 then
    redis.call('ZREM', KEYS[1], unpack(gone))
    redis.call('HDEL', KEYS[2], unpack(gone))
    redis.call('HDEL', KEYS[3], unpack(gone))
  end
  return false
end

local stale = 'lost'
if gathered == tonumber(ARGV[2]) then stale = each_part(find_stale) end
if not stale and ARGV[1] == '' then each_part(write_part) end
redis.call('DEL', KEYS[4])
return stale
