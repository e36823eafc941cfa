-- find: a page of a tenant's jobs, the newest first, then by id; or their number
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; '' or the queue; the lowest and the highest rank; the letters; the instants
--         from which on and before which jobs were created; '' or when the last job of the page
--         before was created, and its id; how many, or 0 to count all; then the listings' keys
--         as places in KEYS
-- reply   the ids, heads and bodies; or the number
-- atomic  because the order and the jobs are as of one moment, and a job that moves meanwhile must
--         be counted once. Bounded by the groups and what is asked for
-- uses    heads
local tenant, queue, low_rank, high_rank, letters, from, before, last, last_id = unpack(ARGV, 1, 9)
local limit = tonumber(ARGV[10])

-- A group is a tenant, a queue, a letter and a rank in one listing. In a group the oldest job comes
-- first, and of those created together the one with the lowest id.
local GROUP = '^([^%z]*%z[^%z]*%z(%a)(%d%d))'

local function each_group(visit)
  local range = tenant .. '\0' .. (queue == '' and '' or queue .. '\0')
  local till = '(' .. range .. '\255'
  for at = 11, #ARGV do
    local key = KEYS[tonumber(ARGV[at])]
    local member = redis.call('ZRANGEBYLEX', key, '[' .. range, till, 'LIMIT', 0, 1)[1]
    while member do
      local group, letter, rank = string.match(member, GROUP)
      if rank >= low_rank and rank <= high_rank and string.find(letters, letter) then
        visit(key, group)
      end
      member = redis.call('ZRANGEBYLEX', key, '(' .. group .. '~', till, 'LIMIT', 0, 1)[1]
    end
  end
end

if limit == 0 then
  local number = 0
  each_group(function(key, group)
    number = number + redis.call('ZLEXCOUNT', key, '[' .. group .. from, '(' .. group .. before)
  end)
  return number
end

local tails = {}

local function note(members, group)
  for _, member in ipairs(members) do tails[#tails + 1] = string.sub(member, #group + 1) end
end

-- Notes the jobs of a group that were created at one instant, behind an id.
local function note_instant(key, group, instant, behind)
  note(redis.call('ZRANGEBYLEX', key, '(' .. group .. instant .. behind,
    '(' .. group .. instant .. '~', 'LIMIT', 0, limit), group)
end

each_group(function(key, group)
  local till = before
  if last ~= '' and last < before then
    till = last
    if last >= from then note_instant(key, group, last, last_id) end
  end
  local members = redis.call('ZREVRANGEBYLEX', key,
    '(' .. group .. till, '[' .. group .. from, 'LIMIT', 0, limit)
  note(members, group)
  -- Of the oldest instant, jobs with lower ids may be missing, which come before the others.
  if #members == limit then
    local oldest = string.sub(members[limit], #group + 1, #group + INSTANT_LENGTH)
    note_instant(key, group, oldest, '')
  end
end)

table.sort(tails)
local ids, at = {}, #tails
while at > 0 and #ids < limit do
  local instant, first = string.sub(tails[at], 1, INSTANT_LENGTH), at
  while first > 1 and string.sub(tails[first - 1], 1, INSTANT_LENGTH) == instant do
    first = first - 1
  end
  for place = first, at do
    local is_twice = place > first and tails[place] == tails[place - 1]
    if not is_twice and #ids < limit then ids[#ids + 1] = string.sub(tails[place], -ID_LENGTH) end
  end
  at = first - 1
end
return {ids, get_all(HEADS, ids), get_all(BODIES, ids)}
