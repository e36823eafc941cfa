-- lease: lease due jobs, tenants in turn
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; until when; the worker; how many; the tenant after which the turns begin; '' or the
--         queues as a JSON array; '' or the tenants as one, in their turns; '' or the kinds; '' or
--         the labels
-- reply   nil if more jobs have come due than one script moves: call again. 0, and nothing is leased,
--         if the caller cannot run one of the next jobs. Else the ids, heads and bodies of the jobs
-- atomic  because a job goes to one caller only, and the order and the tenants' shares follow from
--         all that is due at one moment. Bounded by what is asked for, the ranges with due jobs,
--         and MOST_MOVES
-- uses    choice
local now, till, worker, limit, after = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local queues = as_set(ARGV[6])
local tenants = {}

-- Adds a range to its tenant's, with its first `most` jobs, if one in it is due.
local function open_range(range, tenant, queue, most)
  if queues and not queues[queue] then return end
  local jobs, from = look_along(range, range, most, now)
  if #jobs == 0 then return end
  local last = tenants[#tenants]
  if not last or last.name ~= tenant then
    last = {name = tenant, ranges = {}}
    tenants[#tenants + 1] = last
  end
  last.ranges[#last.ranges + 1] = {name = range, jobs = jobs, at = 1, from = from}
end

-- Opens the ranges of some tenants, up to as many tenants as jobs are wanted. If there seems
-- to be one range only, all jobs are read from it at once.
local function open_part(from, till_name)
  local range, tenant, queue = next_range(from, till_name)
  while range do
    if #tenants == limit and tenants[limit].name ~= tenant then return end
    local following, its_tenant, its_queue = next_range(range .. '~', till_name)
    local is_only = #tenants == 0 and not following
    open_range(range, tenant, queue, is_only and limit or 1)
    range, tenant, queue = following, its_tenant, its_queue
  end
end

-- The next job of a range; nil if there are no more.
local function peek(range, most)
  local job = range.jobs[range.at]
  if not job and range.from then
    range.jobs, range.from = look_along(range.name, range.from, most, now)
    range.at = 1
    job = range.jobs[1]
  end
  return job
end

-- Whether a job comes before one of another range.
local function precedes(job, range, other, its_range)
  return string.sub(job.place, #range.name + 1) < string.sub(other.place, #its_range.name + 1)
end

-- Takes up to `most` jobs of a tenant, in their order over all its queues; how many.
local function take(tenant, most, taken)
  local got = 0
  while got < most do
    local first, source
    for _, range in ipairs(tenant.ranges) do
      local job = peek(range, most - got)
      if job and (not first or precedes(job, range, first, source)) then
        first, source = job, range
      end
    end
    if not first then break end
    source.at = source.at + 1
    got = got + 1
    taken[#taken + 1] = first
  end
  return got
end

-- As rota.stores.kernel.turns says.
local function take_turns()
  local first = #tenants == 1 and #tenants[1].ranges == 1 and tenants[1].ranges[1]
  if first and (#first.jobs == limit or not first.from) then return first.jobs end
  local taken, waiting = {}, tenants
  while #waiting > 0 do
    local share = math.max(1, math.floor((limit - #taken) / #waiting))
    local left = {}
    for _, tenant in ipairs(waiting) do
      local got = take(tenant, math.min(share, limit - #taken), taken)
      if #taken == limit then return taken end
      if got == share then left[#left + 1] = tenant end
    end
    waiting = left
  end
  return taken
end

if not mark_due(now) then return false end
if ARGV[7] == '' then
  open_part(after .. '\0\255', '+')
  open_part('', '[' .. after .. '\0\255')
else
  for _, tenant in ipairs(cjson.decode(ARGV[7])) do
    if #tenants == limit then break end
    open_part(tenant .. '\0', '(' .. tenant .. '\0\255')
  end
end
local taken = take_turns()
if move_count > MOST_MOVES then return false end
local ids = {}
for at, job in ipairs(taken) do ids[at] = job.id end
local bodies = get_all(BODIES, ids)
choose(ARGV[8], ARGV[9])
for _, body in ipairs(bodies) do
  if not accepts(body) then return 0 end
end
local places, timetable = {}, {}
for at, job in ipairs(taken) do
  local head = job.head
  places[at] = job.place
  if not is_prompt(head) then timetable[#timetable + 1] = partition_of(head) .. head[DUE] .. job.id end
end
local answer = lease_all(taken, bodies, now, till, worker)
in_parts('ZREM', READY, places)
in_parts('ZREM', TIMETABLE, timetable)
return answer
