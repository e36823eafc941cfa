-- Part of scripts that write jobs: gathers what changes in each key, and writes it in few calls.
-- ARGV[1] is now.
-- uses    heads
local now = ARGV[1]
local LISTINGS = {P = KEYS[13], U = RUNNING, C = COMPLETED, F = KEYS[15], D = KEYS[16], B = KEYS[17]}
local TERMINAL = {C = true, F = true, D = true, B = true}

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

-- Takes a job out of every set in which one with this head is, except for `ended`.
local function take_out(id, head, place)
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

-- Removes the dependencies of jobs. A parent that has ended may have lost its last dependent.
local function unlink(ids)
  local unknown = {}
  for at, parents in ipairs(get_all(PARENTS, ids)) do
    if parents then unset(PARENTS, ids[at]) end
    for parent in string.gmatch(parents or '', '%S+') do
      drop(CHILDREN, parent .. ids[at])
      if ending[parent] == nil then unknown[#unknown + 1], ending[parent] = parent, false end
    end
  end
  for at, text in ipairs(get_all(HEADS, unknown)) do
    ending[unknown[at]] = text and read_head(text)
  end
end

local function link(id, parents)
  if parents == '' then return end
  set(PARENTS, id, parents)
  for parent in string.gmatch(parents, '%S+') do add(CHILDREN, parent .. id) end
end

local function name(id, old, new)
  local before, after = old and old[IDENTITY] or '', new and new[IDENTITY] or ''
  if before == after then return end
  if before ~= '' then unset(IDENTITIES, before) end
  if after ~= '' then set(IDENTITIES, after, id) end
end

-- Whether a job with either head is in the same sets.
local function is_filed_alike(old, new)
  return old and new and old[SLOT] == new[SLOT] and old[CODE] == new[CODE] and old[DUE] == new[DUE]
    and old[UNTIL] == new[UNTIL] and old[UPDATED] == new[UPDATED]
end

local function replace(id, old, new)
  name(id, old, new)
  if new then ending[id] = TERMINAL[new[CODE]] and new or false end
  if is_filed_alike(old, new) then return end
  if old then
    take_out(id, old, old[SLOT] .. id)
    if TERMINAL[old[CODE]] then drop(ENDED, old[UPDATED] .. id) end
  end
  if new then file(id, new, new[SLOT] .. id) end
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

-- A server without memory refuses a script whose first write takes some. Here everything that is
-- removed comes first: so ends are written, and new jobs are refused.
local function write_index()
  write_all('ZREM', drops)
  write_all('HDEL', hash_drops)
  write_all('HSET', hash_adds)
  write_all('ZADD', adds)
  write_ended()
end
