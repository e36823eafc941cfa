-- first: the first due jobs of some partitions
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; how many of each; then for each partition its tenant, its queue, and '1' if that many
--         of each priority are wanted
-- reply   nil if too many jobs had to be moved because a clock was set back: call again. Else for
--         each partition the ends of places: rank, created and id
-- atomic  because it moves the jobs that it finds not to be due. Bounded by what is asked for and
--         MOST_MOVES
-- uses    line
local now, most, answer = ARGV[1], tonumber(ARGV[2]), {}

local function look(partition, stretch, tails)
  for _, job in ipairs((look_along(stretch, stretch, most, now))) do
    tails[#tails + 1] = string.sub(job.place, #partition + 2)
  end
end

for at = 3, #ARGV, 3 do
  local partition, tails = ARGV[at] .. '\0' .. ARGV[at + 1] .. '\0', {}
  for letter in string.gmatch('OSos', '.') do
    if ARGV[at + 2] ~= '1' then
      look(partition, partition .. letter, tails)
    else
      for rank = 0, 9 do
        look(partition, partition .. letter .. string.format('%02d', rank), tails)
      end
    end
  end
  answer[#answer + 1] = tails
end
if move_count > MOST_MOVES then return false end
return answer
