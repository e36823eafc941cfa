-- range: ranges of a sorted set, and what hashes have of its members
-- KEYS    the sorted set; the hashes, or none
-- ARGV    how many characters at the end of a member are its name in the hashes, 0 for all; the
--         most members of a range; the most bytes of all (one member may exceed them); then the
--         ranges, each as ZRANGEBYLEX takes it
-- reply   the members, and what each hash has of them, '' where it has nothing
-- atomic  because the order and the records are as of one moment. Bounded by what is asked for
local reply, size, name_length, most = {}, 0, tonumber(ARGV[1]), tonumber(ARGV[3])
for column = 1, #KEYS do reply[column] = {} end
for at = 4, #ARGV, 2 do
  local found = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[at], ARGV[at + 1], 'LIMIT', 0, ARGV[2])
  for _, member in ipairs(found) do
    if size > most then break end
    local place, name = #reply[1] + 1, string.sub(member, -name_length)
    reply[1][place] = member
    for column = 2, #KEYS do
      local key = KEYS[column]
      local text = redis.call('HGET', key, name) or ''
      reply[column][place], size = text, size + #text
    end
  end
end
return reply
