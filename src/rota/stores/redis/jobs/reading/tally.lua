-- tally: how many jobs there are with each code
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    none
-- reply   codes and numbers, by turns
-- atomic  because a job that moves meanwhile must be counted once.
-- uses    shelf
local answer = {}
for code, key in pairs(LISTINGS) do
  local number = redis.call('ZCARD', key)
  if number > 0 then
    answer[#answer + 1] = code
    answer[#answer + 1] = number
  end
end
return answer
