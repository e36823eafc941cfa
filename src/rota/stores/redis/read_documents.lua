-- read_documents: the documents that exist among some
-- KEYS    those of documents, as keys.py lists them
-- ARGV    the full names
-- reply   the versions and the bodies, one for each name; nil where there is none
-- atomic  because version and body belong together, and all are as of one moment
if #ARGV == 0 then return {{}, {}} end
local versions, bodies = {}, {}
for place, name in ipairs(ARGV) do
  versions[place] = redis.call('HGET', KEYS[2], name)
  bodies[place] = redis.call('HGET', KEYS[3], name)
end
return {versions, bodies}
