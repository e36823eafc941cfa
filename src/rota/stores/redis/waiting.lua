-- waiting: PENDING jobs that depend on some jobs, perhaps through other PENDING jobs
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    '1' to follow dependents of dependents; the ids of the jobs
-- reply   the ids and heads of the PENDING jobs; and the ids of those among them whose dependents
--         have not been read
-- atomic  because an edge and the job at its end are as of one moment. Bounded by MOST_FOUND, and by
--         the dependents of one job
-- uses    heads
local MOST_FOUND = 4000
local parents, at, ids, texts, left, seen = {unpack(ARGV, 2)}, 1, {}, {}, {}, {}
while parents[at] and #ids < MOST_FOUND do
  local parent, children = parents[at], {}
  at = at + 1
  local edges = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. parent, '(' .. parent .. '~')
  for place, edge in ipairs(edges) do children[place] = string.sub(edge, ID_LENGTH + 1) end
  for place, text in ipairs(get_all(HEADS, children)) do
    local id = children[place]
    if not seen[id] and text and read_head(text)[CODE] == 'P' then
      seen[id], ids[#ids + 1], texts[#texts + 1] = true, id, text
      if ARGV[1] == '1' then parents[#parents + 1] = id end
    end
  end
end
for place = at, #parents do left[#left + 1] = parents[place] end
return {ids, texts, left}
