-- waiting: PENDING jobs that depend on some jobs, perhaps through other PENDING jobs
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    '1' to follow dependents of dependents; the ids of the jobs, each perhaps followed by the
--         id of a dependent behind which to go on
-- reply   the ids and heads of the PENDING jobs; and what is left to read, in the form of ARGV
-- atomic  because an edge and the job at its end are as of one moment. Bounded by MOST_FOUND
-- uses    heads
local MOST_FOUND, PAGE = 4000, 1000
local parents, at, ids, texts, left, seen = {unpack(ARGV, 2)}, 1, {}, {}, {}, {}
while parents[at] and #ids < MOST_FOUND do
  local from, parent, children = parents[at], string.sub(parents[at], 1, ID_LENGTH), {}
  at = at + 1
  local first = (#from == ID_LENGTH and '[' or '(') .. from
  local edges = redis.call('ZRANGEBYLEX', CHILDREN, first, '(' .. parent .. '~', 'LIMIT', 0, PAGE)
  if #edges == PAGE then parents[#parents + 1] = edges[PAGE] end
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
