-- write_each: apply each write that is still current
-- KEYS    those of documents, as keys.py lists them
-- ARGV    the writes; each is a name, the version it expects ('' for none), the version it makes
--         ('0' if the document goes), and the body
-- reply   for each 1, or 0 where it was stale
-- atomic  because a version must not change between the comparison and the write, and because all
--         of them are one durable step
local answers = {}
for at = 1, #ARGV, 4 do
  local name, expected, version, body = unpack(ARGV, at, at + 3)
  local is_current = (redis.call('HGET', KEYS[2], name) or '') == expected
  if is_current and version == '0' then
    redis.call('ZREM', KEYS[1], name)
    redis.call('HDEL', KEYS[2], name)
    redis.call('HDEL', KEYS[3], name)
  elseif is_current then
    redis.call('ZADD', KEYS[1], 0, name)
    redis.call('HSET', KEYS[2], name, version)
    redis.call('HSET', KEYS[3], name, body)
  end
  answers[#answers + 1] = is_current and 1 or 0
end
return answers
