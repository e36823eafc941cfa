-- gather: lay aside a part of many writes until all of them are there
-- KEYS    the list that holds the parts before
-- ARGV    after how many seconds the list is forgotten; the texts of the writes
-- reply   how long the list has become
-- atomic  because without its expiry an abandoned stream would stay for ever
local length = 0
for at = 2, #ARGV, 1000 do
  length = redis.call('RPUSH', KEYS[1], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return length
