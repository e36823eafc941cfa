-- scan: a page of a collection, in the order of the keys
-- KEYS    those of documents, as keys.py lists them
-- ARGV    the name behind which it begins and before which it ends, the most documents, the most
--         bytes (one document may exceed them)
-- reply   1 when there is more and 0 otherwise; the names, the versions and the bodies
-- atomic  because a page is consistent in itself
local names = redis.call(
  'ZRANGEBYLEX', KEYS[1], '(' .. ARGV[1], '(' .. ARGV[2], 'LIMIT', 0, ARGV[3] + 1)
local shown, versions, bodies = {}, {}, {}
local size = 0
for place, name in ipairs(names) do
  if place > tonumber(ARGV[3]) or size > tonumber(ARGV[4]) then
    return {1, shown, versions, bodies}
  end
  local body = redis.call('HGET', KEYS[3], name)
  size = size + #body
  shown[place] = name
  versions[place] = redis.call('HGET', KEYS[2], name)
  bodies[place] = body
end
return {0, shown, versions, bodies}
