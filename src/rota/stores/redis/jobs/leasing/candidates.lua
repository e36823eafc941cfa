-- candidates: the first due jobs of some lanes
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; then for each lane its tenant, its queue, how many jobs, and '1' when that many of
--         each priority are wanted
-- reply   nil when too many have left the line because a clock was set back: call again. Else for
--         each lane the places in line: rank, created and id, written together
-- atomic  because it takes those out of the line that it finds not to be due. Bounded by what is
--         asked for and MOST_MOVES
-- uses    shelf
-- uses    line
local now = ARGV[1]
local answer = {}
for at = 2, #ARGV, 4 do
  local lane = ARGV[at] .. '\0' .. ARGV[at + 1] .. '\0'
  local tails = {}
  for rank = 0, ARGV[at + 3] == '1' and 9 or 0 do
    local stretch = ARGV[at + 3] == '1' and lane .. string.format('%02d', rank) or lane
    for _, job in ipairs((look_along(stretch, stretch, tonumber(ARGV[at + 2]), now))) do
      tails[#tails + 1] = string.sub(stretch, #lane + 1) .. job.tail
    end
  end
  answer[#answer + 1] = tails
end
if move_count > MOST_MOVES then return false end
return answer
