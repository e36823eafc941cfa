-- write_each: apply each write that is still current
-- KEYS    those of documents, as keys.py lists them
-- ARGV    the writes, each as writing.lua says
-- reply   for each the new version, 0 for a removal, nil where it was stale
-- atomic  because a version must not change between the comparison and the write, and because all
--         of them are one durable step
-- uses    writing
local versions = {}
for at = 1, #ARGV, 4 do
  local current = redis.call('HGET', KEYS[2], ARGV[at])
  local version = next_version(current, ARGV[at + 1], ARGV[at + 2])
  if version then write(ARGV[at], version, ARGV[at + 3]) end
  versions[#versions + 1] = version
end
return versions
