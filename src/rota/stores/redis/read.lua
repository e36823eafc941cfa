-- read: what hashes have under some names
-- KEYS    a hash from other names to these, and the hashes to read
-- ARGV    how many names follow; the names; other names, which are left out where they are unknown
-- reply   the names; then what each hash has, nil where it has nothing
-- atomic  because parts of a record belong together, and all are as of one moment
-- uses    heads
local names, reply = {}, {}
for at = 2, #ARGV do
  local name = ARGV[at]
  if at > ARGV[1] + 1 then name = redis.call('HGET', KEYS[1], name) end
  if name then names[#names + 1] = name end
end
reply[1] = names
for at = 2, #KEYS do reply[at] = get_all(KEYS[at], names) end
return reply
