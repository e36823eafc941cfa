-- write_all: apply all writes, or none
-- KEYS    those of documents, as keys.py lists them, and the list in which a stream was gathered
-- ARGV    '1' when nothing is to be written in any case; the writes that were not gathered, each as
--         writing.lua says; they come last
-- reply   nil, or the name and the expected version of the first write that was stale
-- atomic  because nobody may see some of the writes without the others. What it takes grows with
--         the writes: that is what was asked for
-- uses    writing
local gathered = redis.call('LLEN', KEYS[4])

-- Visits all writes in their order, until one visit gives something; that is returned.
local function each_write(visit)
  for at = 0, gathered - 1, 400 do
    local parts = redis.call('LRANGE', KEYS[4], at, at + 399)
    for part = 1, #parts, 4 do
      local found = visit(parts[part], parts[part + 1], parts[part + 2], parts[part + 3])
      if found then return found end
    end
  end
  for at = 2, #ARGV, 4 do
    local found = visit(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    if found then return found end
  end
  return false
end

local seen = {}
local stale = each_write(function(name, expected, is_removal)
  local current = seen[name]
  if current == nil then current = redis.call('HGET', KEYS[2], name) end
  local version = next_version(current, expected, is_removal)
  if not version then return {name, expected} end
  seen[name] = version > 0 and tostring(version)
  return false
end)
if not stale and ARGV[1] == '' then
  each_write(function(name, expected, is_removal, body)
    write(name, next_version(expected ~= '' and expected, expected, is_removal), body)
    return false
  end)
end
redis.call('DEL', KEYS[4])
return stale
