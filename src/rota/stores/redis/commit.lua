-- commit: write jobs and their indexes, if all jobs that the caller has read are as they were
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; '' or the message for listeners; '' or how often dependencies had been amended when
--         the caller read them; how many attempts follow; the attempts; then for each job its id,
--         its head as it was read ('' if there was none), its new head ('' to remove the job, '='
--         to leave it as it is), and its new body ('' to leave it as it is)
-- reply   1; or 0, and nothing is written, if a job is not as it was or an identity is taken
-- atomic  because a decision holds only while everything it was based on is the same. Takes a few
--         commands for each thousand jobs, and one or two for each dependency, removed job, and
--         ended job with dependents
-- A server without memory refuses a script whose first write takes some. Here everything that is
-- removed comes first: so ends are written, and new jobs are refused.
-- uses    heads
local now, first = ARGV[1], 5 + tonumber(ARGV[4])
local LISTINGS = {P = KEYS[7], U = RUNNING, C = COMPLETED, F = KEYS[11], D = KEYS[12], B = KEYS[13]}
local TERMINAL = {C = true, F = true, D = true, B = true}

local function is_as_read()
  local graph = ARGV[3]
  if graph ~= '' and (redis.call('HGET', COUNTERS, 'graph') or '0') ~= graph then return false end
  local ids = {}
  for at = first, #ARGV, 4 do ids[#ids + 1] = ARGV[at] end
  for place, text in ipairs(get_all(HEADS, ids)) do
    if (text or '') ~= ARGV[first + 4 * place - 3] then return false end
  end
  return true
end

-- What is removed from each sorted set and hash, and what is added.
local drops, adds, hash_drops, hash_adds = {}, {}, {}, {}

local function note(parts, key, text)
  local part = parts[key]
  if not part then
    part = {length = 0}
    parts[key] = part
  end
  local length = part.length + 1
  part[length], part.length = text, length
end

local function note_pair(parts, key, first, second)
  local part = parts[key]
  if not part then
    part = {length = 0}
    parts[key] = part
  end
  local length = part.length + 2
  part[length - 1], part[length], part.length = first, second, length
end

local function drop(key, member) note(drops, key, member) end
local function add(key, member) note_pair(adds, key, '0', member) end
local function unset(key, field) note(hash_drops, key, field) end
local function set(key, field, value) note_pair(hash_adds, key, field, value) end

local function write_all(command, parts)
  for key, part in pairs(parts) do in_parts(command, key, part) end
end

local counted = {}

local function count(head, by)
  if head[CODE] == 'U' or head[CODE] == 'D' then
    local field = head[CODE] .. partition_of(head)
    counted[field] = (counted[field] or 0) + by
  end
end

-- Takes a job out of every set in which one with this head is, except for `ended`.
local function take_out(id, head, place)
  count(head, -1)
  if head[CODE] == 'R' then
    drop(READY, place)
    drop(LATER, head[DUE] .. id)
    drop(FUTURE, place)
    drop(TIMETABLE, partition_of(head) .. head[DUE] .. id)
  else
    drop(LISTINGS[head[CODE]], place)
    if head[CODE] == 'U' then drop(LEASED, head[UNTIL] .. id) end
  end
end

-- Puts a job into every set in which one with this head belongs, except for `ended`.
local function file(id, head, place)
  count(head, 1)
  if head[CODE] == 'R' then
    local is_due = head[DUE] <= now
    if is_due then
      add(READY, place)
    else
      add(LATER, head[DUE] .. id)
      add(FUTURE, place)
    end
    if not (is_due and is_prompt(head)) then
      add(TIMETABLE, partition_of(head) .. head[DUE] .. id)
    end
  else
    add(LISTINGS[head[CODE]], place)
    if head[CODE] == 'U' then add(LEASED, head[UNTIL] .. id) end
  end
end

-- Jobs that may have to enter or leave `ended`, with their heads; false for one that is removed.
local ending = {}

-- Changes the edges from the parents in one head to those in another.
local function link(id, old, new)
  local before, after = old and old[PARENTS] or '', new and new[PARENTS] or ''
  if before == after then return end
  for parent in string.gmatch(before, '%S+') do
    drop(CHILDREN, parent .. id)
    if ending[parent] == nil then
      local text = redis.call('HGET', HEADS, parent)
      ending[parent] = text and read_head(text)
    end
  end
  for parent in string.gmatch(after, '%S+') do add(CHILDREN, parent .. id) end
end

local function name(id, old, new)
  local before, after = old and old[IDENTITY] or '', new and new[IDENTITY] or ''
  if before == after then return end
  if before ~= '' then unset(IDENTITIES, before) end
  if after ~= '' then set(IDENTITIES, after, id) end
end

-- Where a job is with its old head and with its new one; false where it has none.
local function places_of(id, old, new)
  local old_place = old and place_of(id, old)
  local is_same = old and new and old[DUE] == new[DUE] and old[QUEUE] == new[QUEUE]
    and old[RANK] == new[RANK] and old[SORT] == new[SORT]
  return old_place, is_same and old_place or new and place_of(id, new)
end

local function replace(id, old, new)
  local old_place, new_place = places_of(id, old, new)
  link(id, old, new)
  name(id, old, new)
  if old_place == new_place and old[CODE] == new[CODE] and old[DUE] == new[DUE]
    and old[UNTIL] == new[UNTIL] and old[UPDATED] == new[UPDATED] then
    ending[id] = TERMINAL[new[CODE]] and new or false
    return
  end
  if old then
    take_out(id, old, old_place)
    if TERMINAL[old[CODE]] then drop(ENDED, old[UPDATED] .. id) end
  end
  if new then
    file(id, new, new_place)
    ending[id] = TERMINAL[new[CODE]] and new or false
  end
end

local removed = {}

local function gather()
  for at = first, #ARGV, 4 do
    local id, old, new, body = unpack(ARGV, at, at + 3)
    if new ~= '=' then
      local old_head, new_head = old ~= '' and read_head(old), new ~= '' and read_head(new)
      replace(id, old_head, new_head)
      if new_head then
        set(HEADS, id, new)
      else
        removed[#removed + 1], ending[id] = id, false
        unset(HEADS, id)
        unset(BODIES, id)
      end
      if body ~= '' then set(BODIES, id, body) end
    end
  end
end

local function is_any_identity_taken()
  local names = {}
  for at, text in ipairs(hash_adds[IDENTITIES] or {}) do
    if at % 2 == 1 then names[#names + 1] = text end
  end
  for _, owner in ipairs(get_all(IDENTITIES, names)) do
    if owner then return true end
  end
  return false
end

local function has_children(id, head)
  if not is_awaited(head) then return false end
  local found = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. id, '(' .. id .. '~', 'LIMIT', 0, 1)
  return #found > 0
end

local function write_ended()
  drops, adds = {}, {}
  for id, head in pairs(ending) do
    if head and TERMINAL[head[CODE]] then
      local change = has_children(id, head) and drop or add
      change(ENDED, head[UPDATED] .. id)
    end
  end
  write_all('ZREM', drops)
  write_all('ZADD', adds)
end

if not is_as_read() then return 0 end
gather()
if is_any_identity_taken() then return 0 end
write_all('ZREM', drops)
write_all('HDEL', hash_drops)
write_all('HSET', hash_adds)
write_all('ZADD', adds)
write_ended()
for _, id in ipairs(removed) do
  redis.call('ZREMRANGEBYLEX', ATTEMPTS, '[' .. id, '(' .. id .. '~')
end
drops, adds = {}, {}
for at = 5, first - 1 do add(ATTEMPTS, ARGV[at]) end
write_all('ZADD', adds)
count_all(counted)
if ARGV[3] ~= '' then redis.call('HINCRBY', COUNTERS, 'graph', 1) end
-- Replicas that have this write have everything before it, too.
if first > #ARGV then redis.call('HINCRBY', COUNTERS, 'graph', 0) end
if ARGV[2] ~= '' then redis.call('PUBLISH', WAKE, ARGV[2]) end
return 1
