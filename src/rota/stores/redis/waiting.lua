-- waiting: PENDING jobs that depend on some jobs, perhaps through other PENDING jobs
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    '1' to follow dependents of dependents; the ids of the jobs, each perhaps followed by the
--         id of a dependent behind which to go on
-- reply   the ids and heads of the PENDING jobs; the dependencies by which they were found, as in
--         `children`; and what is left to read, in the form of ARGV
-- atomic  because an edge and the job at its end are as of one moment. Bounded by MOST_FOUND
-- uses    heads
local MOST_FOUND, PAGE = 4000, 1000
local parents, at, left = {}, 1, {}
for place = 2, #ARGV do parents[place - 1] = ARGV[place] end
local ids, texts, found, is_pending = {}, {}, {}, {}

-- Reads the jobs at the ends of edges that were not read before.
local function read_ends(edges)
  local unread = {}
  for _, edge in ipairs(edges) do
    local id = string.sub(edge, ID_LENGTH + 1)
    if is_pending[id] == nil then unread[#unread + 1], is_pending[id] = id, false end
  end
  for place, text in ipairs(get_all(HEADS, unread)) do
    local id = unread[place]
    if text and read_head(text)[CODE] == 'P' then
      is_pending[id], ids[#ids + 1], texts[#texts + 1] = true, id, text
      if ARGV[1] == '1' then parents[#parents + 1] = id end
    end
  end
end

while parents[at] and #found < MOST_FOUND do
  local from, parent = parents[at], string.sub(parents[at], 1, ID_LENGTH)
  at = at + 1
  local first = (#from == ID_LENGTH and '[' or '(') .. from
  local edges = redis.call('ZRANGEBYLEX', CHILDREN, first, '(' .. parent .. '~', 'LIMIT', 0, PAGE)
  if #edges == PAGE then parents[#parents + 1] = edges[PAGE] end
  read_ends(edges)
  for _, edge in ipairs(edges) do
    if is_pending[string.sub(edge, ID_LENGTH + 1)] then found[#found + 1] = edge end
  end
end
for place = at, #parents do left[#left + 1] = parents[place] end
return {ids, texts, found, left}
