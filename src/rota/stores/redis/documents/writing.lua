-- Part of scripts that write documents: a write is a name, the version it expects ('' for none),
-- '1' when the document is to go, and its body.

-- The version that a document at `current` (or false) has after the write, 0 when it is gone; false
-- when the write is stale.
local function next_version(current, expected, is_removal)
  if (current or '') ~= expected then return false end
  if is_removal == '1' then return 0 end
  return (tonumber(current) or 0) + 1
end

local function write(name, version, body)
  if version == 0 then
    redis.call('ZREM', KEYS[1], name)
    redis.call('HDEL', KEYS[2], name)
    redis.call('HDEL', KEYS[3], name)
  else
    redis.call('ZADD', KEYS[1], 0, name)
    redis.call('HSET', KEYS[2], name, version)
    redis.call('HSET', KEYS[3], name, body)
  end
end
