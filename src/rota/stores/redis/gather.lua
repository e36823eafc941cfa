-- gather: lay aside a part of a long stream of writes until the stream is complete
-- KEYS    the list that holds the parts before
-- ARGV    after how many seconds the list is forgotten; the writes, each as write_each.lua says
-- reply   how long the list has become
-- atomic  because without its expiry an abandoned stream would stay for ever
local length = 0
for at = 2, #ARGV, 4 do
  length = redis.call('RPUSH', KEYS[1], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return length
