-- tally: how many jobs there are with each code
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    none
-- reply   codes and numbers, by turns
-- atomic  because a job that moves meanwhile must be counted once. Bounded by the tenants
-- uses    shelf
local numbers = {}
local member = redis.call('ZRANGEBYLEX', LISTING, '-', '+', 'LIMIT', 0, 1)[1]
while member do
  local stretch, code = string.match(member, '^([^%z]*%z(.))')
  local number = redis.call('ZLEXCOUNT', LISTING, '[' .. stretch, '(' .. stretch .. '\255')
  numbers[code] = (numbers[code] or 0) + number
  member = redis.call('ZRANGEBYLEX', LISTING, '(' .. stretch .. '\255', '+', 'LIMIT', 0, 1)[1]
end
local answer = {}
for code, number in pairs(numbers) do
  answer[#answer + 1] = code
  answer[#answer + 1] = number
end
return answer
