-- find: a page of a tenant's jobs, the newest first, and by id where they are of one instant
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; the codes; '' or the queue; the lowest and the highest rank; the letters; the
--         instants from which on and before which jobs were created; '' or when the last job of the
--         page before was created, and its id; how many
-- reply   the ids, heads and bodies
-- atomic  because the order and the jobs are as of one moment. Bounded by the lanes and what is
--         asked for
-- uses    shelf
-- uses    listing
local from, before, last, last_id, limit = ARGV[7], ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11])
local tails = {}

local function note(members, lane)
  for _, member in ipairs(members) do tails[#tails + 1] = string.sub(member, #lane + 1) end
end

-- Notes the jobs of a lane that were created at one instant, from an id on.
local function note_instant(key, lane, instant, behind)
  note(redis.call('ZRANGEBYLEX', key, '(' .. lane .. instant .. behind,
    '(' .. lane .. instant .. '~', 'LIMIT', 0, limit), lane)
end

each_lane(function(key, lane)
  local till = before
  if last ~= '' and last < before then
    till = last
    if last >= from then note_instant(key, lane, last, last_id) end
  end
  local members = redis.call('ZREVRANGEBYLEX', key,
    '(' .. lane .. till, '[' .. lane .. from, 'LIMIT', 0, limit)
  note(members, lane)
  -- Of the oldest instant those with the lowest ids may be missing, which come before the others.
  if #members == limit then
    local oldest = string.sub(members[limit], #lane + 1, #lane + INSTANT_LENGTH)
    note_instant(key, lane, oldest, '')
  end
end, unpack(ARGV, 1, 6))

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
return show(ids)
