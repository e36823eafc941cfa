-- dump_documents: documents of any collection, in the order of their names
-- KEYS    those of documents, as keys.py lists them
-- ARGV    '' or the name behind which it begins, the most documents, the most bytes (one document
--         may exceed them)
-- reply   the names, the versions and the bodies
-- atomic  because a page is consistent in itself
local first = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local names = redis.call('ZRANGEBYLEX', KEYS[1], first, '+', 'LIMIT', 0, ARGV[2])
local shown, versions, bodies = {}, {}, {}
local size = 0
for place, name in ipairs(names) do
  if size > tonumber(ARGV[3]) then break end
  local body = redis.call('HGET', KEYS[3], name)
  size = size + #body
  shown[place] = name
  versions[place] = redis.call('HGET', KEYS[2], name)
  bodies[place] = body
end
return {shown, versions, bodies}
