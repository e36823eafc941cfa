-- Part of scripts that read lists: every filter is a stretch of some lanes. Uses shelf. A lane is a
-- tenant, a queue, a rank and a sort, in the listing of a code.
local LANE = '^([^%z]*%z[^%z]*%z(%d%d)(%l))'

-- Visits the lanes of a tenant with these codes, ranks and sorts, and this queue unless it is ''.
local function each_lane(visit, tenant, codes, queue, low_rank, high_rank, sorts)
  for code in string.gmatch(codes, '.') do
    local key = LISTINGS[code]
    local stretch = tenant .. '\0' .. (queue == '' and '' or queue .. '\0')
    local till = '(' .. stretch .. '\255'
    local member = redis.call('ZRANGEBYLEX', key, '[' .. stretch, till, 'LIMIT', 0, 1)[1]
    while member do
      local lane, rank, sort = string.match(member, LANE)
      if rank >= low_rank and rank <= high_rank and string.find(sorts, sort) then
        visit(key, lane)
      end
      member = redis.call(
        'ZRANGEBYLEX', key, '(' .. lane .. '~', till, 'LIMIT', 0, 1)[1]
    end
  end
end
