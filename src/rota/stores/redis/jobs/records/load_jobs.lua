-- load_jobs: keep jobs as they are, unless they are there
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; then for each its id, head and body, its identity or '', how many attempts follow, and
--         these
-- reply   how many were not there
-- atomic  because a job is found by several keys, or by none; and because whoever depends on it
--         must know of it. What it takes grows with the jobs, and with those who came before them
--         and depend on them
-- uses    shelf
local now = ARGV[1]
local fresh = {}

local function is_free(key, id)
  return key == '' or redis.call('HSETNX', IDENTITIES, key, id) == 1
    or redis.call('HGET', IDENTITIES, key) == id
end

local at = 2
while at <= #ARGV do
  local id, attempt_count = ARGV[at], tonumber(ARGV[at + 4])
  if is_free(ARGV[at + 3], id) and redis.call('HSETNX', HEADS, id, ARGV[at + 1]) == 1 then
    bodies[id] = ARGV[at + 2]
    for place = at + 5, at + 4 + attempt_count do
      redis.call('ZADD', ATTEMPTS, '0', id .. ARGV[place])
    end
    fresh[#fresh + 1] = id
  end
  at = at + 5 + attempt_count
end

-- Those who came before and waited for one that is COMPLETED wait for it no longer. They are not
-- released by that: where they came from they were waiting for others as well.
local function stop_being_awaited(id)
  for _, edge in ipairs(redis.call('ZRANGEBYLEX', OPEN, '[' .. id, '(' .. id .. '~')) do
    local child = string.sub(edge, ID_LENGTH + 1)
    local head = get_head(child)
    redis.call('ZREM', OPEN, edge)
    head[AWAITED] = tostring(tonumber(head[AWAITED]) - 1)
    put_head(child, head)
  end
end

-- As `link`, for one whose dependencies may not have come yet.
local function tie(id)
  local head = get_head(id)
  local awaited = 0
  for parent in each_parent(head) do
    redis.call('ZADD', CHILDREN, '0', parent .. id)
    has_edges[CHILDREN] = true
    local its = get_head(parent)
    if its and TERMINAL[its[CODE]] then drop(ENDED, its[UPDATED] .. parent) end
    if head[CODE] == 'P' and not (its and its[CODE] == 'C') then
      awaited = awaited + 1
      redis.call('ZADD', OPEN, '0', parent .. id)
    end
  end
  if awaited > 0 then
    head[AWAITED] = tostring(awaited)
    put_head(id, head)
  end
end

for _, id in ipairs(fresh) do
  if get_head(id)[CODE] == 'C' and has_any(OPEN) then stop_being_awaited(id) end
end
for _, id in ipairs(fresh) do tie(id) end
for _, id in ipairs(fresh) do file(id, get_head(id), now) end
write_out()
return #fresh
