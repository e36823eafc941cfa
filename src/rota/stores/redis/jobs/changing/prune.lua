-- prune: let jobs go that ended long ago
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    before when they ended; how many at the most
-- reply   how many went; fewer than that means that there are no more
-- atomic  because nobody may come to depend on a job that is about to go. Bounded by what is asked
--         for; the caller asks in parts
-- uses    shelf
local gone = 0
while gone < tonumber(ARGV[2]) do
  local member = redis.call('ZRANGEBYLEX', ENDED, '-', '(' .. ARGV[1], 'LIMIT', 0, 1)[1]
  if not member then break end
  local id = string.sub(member, INSTANT_LENGTH + 1)
  remove(id, get_head(id))
  write_out()
  gone = gone + 1
end
return gone
