-- gather: a part of a long stream of writes is laid aside until the stream is complete
-- KEYS    the list that holds what was laid aside before
-- ARGV    after how many seconds all of it is forgotten, and the writes, each as writing.lua says
-- reply   how long the list has become
-- atomic  because without the time to forget it, a stream that is given up would stay for ever
local length = 0
for at = 2, #ARGV, 4 do
  length = redis.call('RPUSH', KEYS[1], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return length
