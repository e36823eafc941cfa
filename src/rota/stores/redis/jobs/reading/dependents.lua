-- dependents: who names one of some jobs among its dependencies
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; how many; the ids
-- reply   the ids, heads and bodies, by id
-- atomic  because the dependencies and the jobs are as of one moment. Bounded by what is asked for,
--         once for each id
-- uses    shelf
local seen, ids = {}, {}
for at = 3, #ARGV do
  local edges = redis.call(
    'ZRANGEBYLEX', CHILDREN, '[' .. ARGV[at], '(' .. ARGV[at] .. '~', 'LIMIT', 0, ARGV[2])
  for _, edge in ipairs(edges) do
    local id = string.sub(edge, ID_LENGTH + 1)
    if not seen[id] and get_head(id)[TENANT] == ARGV[1] then ids[#ids + 1] = id end
    seen[id] = true
  end
end
table.sort(ids)
while #ids > tonumber(ARGV[2]) do ids[#ids] = nil end
return show(ids)
