-- candidates: the first due jobs of some lanes
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; then for each lane its tenant, its queue, how many jobs, and '1' when that many of
--         each priority are wanted
-- reply   nil when too many have left the line because a clock was set back: call again. Else for
--         each lane the places in line: rank, created and id, written together
-- atomic  because it takes those out of the line that it finds not to be due. Bounded by what is
--         asked for and MOST_MOVES
-- uses    line
local now = ARGV[1]
local answer = {}

local function look(lane, stretch, most, tails)
  for _, job in ipairs((look_along(stretch, stretch, most, now))) do
    tails[#tails + 1] = string.sub(job.place, #lane + 2)
  end
end

for at = 2, #ARGV, 4 do
  local lane, most = ARGV[at] .. '\0' .. ARGV[at + 1] .. '\0', tonumber(ARGV[at + 2])
  local tails = {}
  for _, letter in ipairs(LETTERS) do
    if ARGV[at + 3] ~= '1' then
      look(lane, lane .. letter, most, tails)
    else
      for rank = 0, 9 do
        look(lane, lane .. letter .. string.format('%02d', rank), most, tails)
      end
    end
  end
  answer[#answer + 1] = tails
end
if move_count > MOST_MOVES then return false end
return answer
