-- tally: how many documents each collection has
-- KEYS    those of documents, as keys.py lists them
-- ARGV    none
-- reply   collections and numbers, by turns
-- atomic  because all is as of one moment. Bounded by the collections
local answer = {}
local name = redis.call('ZRANGEBYLEX', KEYS[1], '-', '+', 'LIMIT', 0, 1)[1]
while name do
  local collection = string.match(name, '^[^%z]*')
  local till = '(' .. collection .. '\1'
  answer[#answer + 1] = collection
  answer[#answer + 1] = redis.call('ZLEXCOUNT', KEYS[1], '[' .. collection .. '\0', till)
  name = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. collection .. '\1', '+', 'LIMIT', 0, 1)[1]
end
return answer
