-- load_documents: keep documents as they are, unless they are there
-- KEYS    those of documents, as keys.py lists them
-- ARGV    for each its name, version and body
-- reply   how many were not there
-- atomic  because a document is found by three keys, or by none
local new_count = 0
for at = 1, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[2], ARGV[at], ARGV[at + 1]) == 1 then
    redis.call('ZADD', KEYS[1], 0, ARGV[at])
    redis.call('HSET', KEYS[3], ARGV[at], ARGV[at + 2])
    new_count = new_count + 1
  end
end
return new_count
