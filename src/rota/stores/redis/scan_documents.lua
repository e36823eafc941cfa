-- scan_documents: a page of documents, in the order of their full names
-- KEYS    those of documents, as keys.py lists them
-- ARGV    the range of names, as ZRANGEBYLEX takes it; the most documents; the most bytes (one
--         document may exceed them)
-- reply   the names, the versions and the bodies; none only if there are no more
-- atomic  because a page is consistent in itself
local names = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local shown, versions, bodies = {}, {}, {}
local size = 0
for place, name in ipairs(names) do
  if size > tonumber(ARGV[4]) then break end
  local body = redis.call('HGET', KEYS[3], name)
  size = size + #body
  shown[place], bodies[place] = name, body
  versions[place] = redis.call('HGET', KEYS[2], name)
end
return {shown, versions, bodies}
