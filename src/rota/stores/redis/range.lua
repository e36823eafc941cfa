-- range: ranges of a sorted set, and the jobs whose ids its members end with
-- KEYS    heads; bodies or parents; the sorted set
-- ARGV    '' for the members alone; the most members of a range; the most bytes of all (one job may
--         exceed them); then the ranges, each as ZRANGEBYLEX takes it
-- reply   the members, the heads, and the bodies or parents, '' where there are none
-- atomic  because the order and the jobs are as of one moment. Bounded by what is asked for
local ID_LENGTH = 36
local HEADS, CONTENTS, MEMBERS = unpack(KEYS)
local members, heads, contents, size = {}, {}, {}, 0
for at = 4, #ARGV, 2 do
  local found = redis.call(
    'ZRANGEBYLEX', MEMBERS, ARGV[at], ARGV[at + 1], 'LIMIT', 0, ARGV[2])
  for _, member in ipairs(found) do
    if size > tonumber(ARGV[3]) then break end
    local place = #members + 1
    members[place] = member
    if ARGV[1] ~= '' then
      local id = string.sub(member, -ID_LENGTH)
      heads[place] = redis.call('HGET', HEADS, id)
      contents[place] = redis.call('HGET', CONTENTS, id) or ''
      size = size + #heads[place] + #contents[place]
    end
  end
end
return {members, heads, contents}
