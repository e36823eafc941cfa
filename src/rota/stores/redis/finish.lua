-- finish: write a part of what a commit has left to do
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now
-- reply   1 if there is more
-- atomic  because a part is written exactly when it leaves the intent. Nothing has to be compared:
--         the jobs are PENDING, and commit.lua changes no job before the intent is finished
-- uses    index
-- uses    ends
local MOST_TEXTS = 3 * 2000
local parts = redis.call('LPOP', INTENT, MOST_TEXTS) or {}
for at = 1, #parts, 3 do
  local id, old, new = unpack(parts, at, at + 2)
  if id == '' and old == 'ends' then
    redis.call('PUBLISH', ENDS, new)
  elseif id == '' then
    redis.call('PUBLISH', WAKE, new)
  else
    replace(id, read_head(old), read_head(new))
    set(HEADS, id, new)
  end
end
write_index()
return redis.call('EXISTS', INTENT)
