-- first: the first due jobs of some partitions
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; how many of each; '' or the kinds as a JSON array; '' or the labels; how many jobs to
--         look at; then for each partition its tenant, its queue, and '1' if that many of each
--         priority are wanted
-- reply   nil if too many jobs had to be moved because a clock was set back: call again. Else for
--         each partition the ends of places: rank, created and id
-- atomic  because it moves the jobs that it finds not to be due. Bounded by what is asked for, how
--         many jobs it looks at, and MOST_MOVES
-- uses    choice
local now, most, left, answer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5]), {}
local PART = 100
choose(ARGV[3], ARGV[4])

-- Adds those of some jobs that the caller can run, up to `wanted`; how many.
local function add(jobs, partition, tails, wanted)
  local ids, bodies, count = {}, {}, 0
  if kinds or labels then
    for at, job in ipairs(jobs) do ids[at] = job.id end
    bodies = get_all(BODIES, ids)
  end
  for at, job in ipairs(jobs) do
    if count < wanted and accepts(bodies[at]) then
      count = count + 1
      tails[#tails + 1] = string.sub(job.place, #partition + 2)
    end
  end
  return count
end

local function look(partition, range, tails)
  local from, count, seen, jobs = range, 0, 0, nil
  while from and count < most and seen < left do
    local part = (kinds or labels) and math.min(PART, left - seen) or most
    jobs, from = look_along(range, from, part, now)
    seen = seen + #jobs
    count = count + add(jobs, partition, tails, most - count)
  end
end

for at = 6, #ARGV, 3 do
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
