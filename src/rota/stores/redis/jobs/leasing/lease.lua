-- lease: hand out due jobs, tenants in turn, each to one caller only
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; until when; the worker; how many; the tenant after whom the turns begin; '' or the
--         queues as a JSON array; '' or the tenants as one, in their turns
-- reply   nil when more jobs have come due than one script moves: call again. Else the ids, heads
--         and bodies of the jobs
-- atomic  because nobody else may be handed the same jobs, and their order and the tenants' parts
--         follow from all that is due at one moment. Bounded by what is asked for, the lanes with
--         due jobs, and MOST_MOVES
-- uses    shelf
-- uses    line
local now, till, worker, limit, after = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local queues = as_set(ARGV[6])
local tenants = {}

-- Adds a lane in which there is a due job to its tenant's.
local function open_lane(lane, tenant, queue)
  if queues and not queues[queue] then return end
  local jobs, from = look_along(lane, lane, 1, now)
  if #jobs == 0 then return end
  local last = tenants[#tenants]
  if not last or last.name ~= tenant then
    last = {name = tenant, lanes = {}}
    tenants[#tenants + 1] = last
  end
  last.lanes[#last.lanes + 1] = {name = lane, jobs = jobs, at = 1, from = from}
end

-- Looks at the lanes of a stretch of tenants, until there are as many tenants as jobs wanted.
local function open_lanes(from, till_name)
  local lane, tenant, queue = next_lane(READY, from, till_name)
  while lane do
    if #tenants == limit and tenants[limit].name ~= tenant then return end
    open_lane(lane, tenant, queue)
    lane, tenant, queue = next_lane(READY, lane .. '~', till_name)
  end
end

-- The next job of a lane; nothing when there is no more.
local function peek(lane, most)
  if lane.at > #lane.jobs and lane.from then
    lane.jobs, lane.from = look_along(lane.name, lane.from, most, now)
    lane.at = 1
    if #lane.jobs == 0 then lane.from = nil end
  end
  return lane.jobs[lane.at]
end

-- Up to so many jobs of a tenant, in their order over all lanes.
local function take(tenant, most, taken)
  local got = 0
  while got < most do
    local first, source
    for _, lane in ipairs(tenant.lanes) do
      local job = peek(lane, most - got)
      if job and (not first or job.tail < first.tail) then first, source = job, lane end
    end
    if not first then break end
    source.at = source.at + 1
    got = got + 1
    taken[#taken + 1] = first
  end
  return got
end

-- As rota.stores.jobs.turns says.
local function take_turns()
  local taken, waiting = {}, tenants
  while #waiting > 0 do
    local share = math.max(1, math.floor((limit - #taken) / #waiting))
    local unsated = {}
    for _, tenant in ipairs(waiting) do
      local got = take(tenant, math.min(share, limit - #taken), taken)
      if #taken == limit then return taken end
      if got == share then unsated[#unsated + 1] = tenant end
    end
    waiting = unsated
  end
  return taken
end

if not let_in(now) then return false end
if ARGV[7] == '' then
  open_lanes(after .. '\0\255', '+')
  open_lanes('', '[' .. after .. '\0\255')
else
  for _, tenant in ipairs(cjson.decode(ARGV[7])) do
    if #tenants == limit then break end
    open_lanes(tenant .. '\0', '(' .. tenant .. '\0\255')
  end
end
local taken = take_turns()
if move_count > MOST_MOVES then return false end
return grant_all(taken, now, till, worker)
