-- Part of scripts that read lists: every filter is a stretch of some lanes. Uses shelf. A lane is a
-- tenant, a queue, a letter and a rank, in the listing of a code. In a lane the oldest comes first, and of those created together the one with the lowest id.
local LANE = '^([^%z]*%z[^%z]*%z(%a)(%d%d))'

local function each_lane_of(key, visit, tenant, queue, low_rank, high_rank, letters)
  local stretch = tenant .. '\0' .. (queue == '' and '' or queue .. '\0')
  local till = '(' .. stretch .. '\255'
  local member = redis.call('ZRANGEBYLEX', key, '[' .. stretch, till, 'LIMIT', 0, 1)[1]
  while member do
    local lane, letter, rank = string.match(member, LANE)
    if rank >= low_rank and rank <= high_rank and string.find(letters, letter) then
      visit(key, lane)
    end
    member = redis.call('ZRANGEBYLEX', key, '(' .. lane .. '~', till, 'LIMIT', 0, 1)[1]
  end
end

-- Visits the lanes of a tenant with these codes, ranks and letters, and this queue unless it is ''.
local function each_lane(visit, tenant, codes, ...)
  for code in string.gmatch(codes, '.') do
    each_lane_of(LISTINGS[code], visit, tenant, ...)
  end
end
