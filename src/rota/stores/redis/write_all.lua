-- write_all: apply all writes, or none
-- KEYS    those of documents, as keys.py lists them, and the list in which a stream was gathered
-- ARGV    '1' if nothing is to be written in any case; how long the list must be; the last part,
--         which was not gathered. A part is two texts in MessagePack: the names of up to a thousand
--         writes, their expected and their next versions; and their bodies
-- reply   nil, or the name and the expected version of the first write that was stale; or 'lost'
--         if the list is not as it was left, and nothing is written
-- atomic  so that no reader sees some of the writes without the others. Takes ten commands for each
--         thousand writes
local gathered = redis.call('LLEN', KEYS[4])

-- Visits all parts in order until a visit returns something.
local function each_part(visit)
  for at = 0, gathered - 1, 2 do
    local found = visit(
      redis.call('LINDEX', KEYS[4], at),
      function() return redis.call('LINDEX', KEYS[4], at + 1) end
    )
    if found then return found end
  end
  return visit(ARGV[3], function() return ARGV[4] end)
end

local seen = {}

-- The first write of a part that is stale; a write sees those before it.
local function find_stale(heads)
  local names, expected, versions = unpack(cmsgpack.unpack(heads))
  if not names then return false end
  local found = redis.call('HMGET', KEYS[2], unpack(names))
  for place, name in ipairs(names) do
    if (seen[name] or found[place] or '') ~= expected[place] then
      return {name, expected[place]}
    end
    seen[name] = versions[place] == '0' and '' or versions[place]
  end
  return false
end

-- Writes the last state of each document of a part.
local function write_part(heads, read_bodies)
  local all, _, numbers = unpack(cmsgpack.unpack(heads))
  if not all then return false end
  local texts, last = cmsgpack.unpack(read_bodies()), {}
  for at, name in ipairs(all) do last[name] = at end
  local names, versions, bodies, gone = {}, {}, {}, {}
  for name, at in pairs(last) do
    if numbers[at] == '0' then
      gone[#gone + 1] = name
    else
      local place = #names
      names[place + 1], names[place + 2] = 0, name
      versions[place + 1], versions[place + 2] = name, numbers[at]
      bodies[place + 1], bodies[place + 2] = name, texts[at]
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
