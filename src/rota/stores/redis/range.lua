-- range: ranges of a sorted set, and the jobs whose ids its members end with
-- KEYS    the sorted set; heads and other hashes by id, or none of them
-- ARGV    the most members of a range; the most bytes of all (one job may exceed them); then the
--         ranges, each as ZRANGEBYLEX takes it
-- reply   the members, and what each hash has of them, '' where it has nothing
-- atomic  because the order and the jobs are as of one moment. Bounded by what is asked for
local ID_LENGTH = 36
local reply, size = {}, 0
for column = 1, #KEYS do reply[column] = {} end
for at = 3, #ARGV, 2 do
  local found = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[at], ARGV[at + 1], 'LIMIT', 0, ARGV[1])
  for _, member in ipairs(found) do
    if size > tonumber(ARGV[2]) then break end
    local place = #reply[1] + 1
    reply[1][place] = member
    for column = 2, #KEYS do
      local key = KEYS[column]
      local text = redis.call('HGET', key, string.sub(member, -ID_LENGTH)) or ''
      reply[column][place], size = text, size + #text
    end
  end
end
return reply
