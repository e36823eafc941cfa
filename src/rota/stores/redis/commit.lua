-- commit: write jobs and their indexes, if all jobs that the caller has read are as they were
-- KEYS    those of jobs, as keys.py lists them, and the list in which writes were gathered
-- ARGV    now; '' or the message for listeners; '' or how often dependencies had been amended when
--         the caller read them; how long the list must be; in MessagePack the attempts, the ids of
--         jobs whose dependencies change, each followed by the ids of these, the ids of jobs with
--         results, each followed by its result, '' or the message for those who listen for ends,
--         the ids of jobs that lose their result, and of those that lose their attempts;
--         then for each job its id, its head as it was read ('' if there was none), its new head (''
--         to remove the job, '=' to leave it as it is), and its new body ('' to leave it as it is).
--         The list holds the same without bodies, of PENDING jobs; the intent takes it over
-- reply   1; or 0, and nothing is written, if a job is not as it was or an identity is taken; or 2,
--         and nothing is written, while there is an intent: finish it first
-- atomic  because a decision holds only while everything it was based on is the same. Takes a few
--         commands for each thousand jobs, and one or two for each dependency, removed job, and
--         ended job with dependents
-- uses    index
-- uses    ends
local GATHERED, FIRST = KEYS[#KEYS], 6
local attempts, links, results, ended, resultless, untried = unpack(cmsgpack.unpack(ARGV[5]))

local function are_as_read(ids, texts)
  for place, text in ipairs(get_all(HEADS, ids)) do
    if (text or '') ~= texts[place] then return false end
  end
  return true
end

local function is_as_read()
  local graph = ARGV[3]
  if graph ~= '' and (redis.call('HGET', COUNTERS, 'graph') or '0') ~= graph then return false end
  local ids, texts = {}, {}
  for at = FIRST, #ARGV, 4 do
    ids[#ids + 1] = ARGV[at]
    texts[#texts + 1] = ARGV[at + 1]
  end
  return are_as_read(ids, texts)
end

local function is_gathered_as_read()
  if ARGV[4] == '0' then return true end
  local length = redis.call('LLEN', GATHERED)
  if length ~= tonumber(ARGV[4]) then return false end
  for at = 0, length - 1, 3000 do
    local ids, texts = {}, {}
    local parts = redis.call('LRANGE', GATHERED, at, at + 2999)
    for place = 1, #parts, 3 do
      if parts[place] ~= '' then
        ids[#ids + 1] = parts[place]
        texts[#texts + 1] = parts[place + 1]
      end
    end
    if not are_as_read(ids, texts) then return false end
  end
  return true
end

local removed = {}

local function gather_jobs()
  for at = FIRST, #ARGV, 4 do
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
        unset(RESULTS, id)
      end
      if body ~= '' then set(BODIES, id, body) end
    end
  end
end

local function gather_dependencies()
  local changed = {}
  for at = 1, #links, 2 do changed[#changed + 1] = links[at] end
  unlink(removed)
  unlink(changed)
  for at = 1, #links, 2 do link(links[at], links[at + 1]) end
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

if redis.call('EXISTS', INTENT) == 1 then return 2 end
if not (is_as_read() and is_gathered_as_read()) then return 0 end
gather_jobs()
gather_dependencies()
for at = 1, #results, 2 do set(RESULTS, results[at], results[at + 1]) end
for _, id in ipairs(resultless) do unset(RESULTS, id) end
if is_any_identity_taken() then return 0 end
write_index()
for _, ids in ipairs({removed, untried}) do
  for _, id in ipairs(ids) do
    redis.call('ZREMRANGEBYLEX', ATTEMPTS, '[' .. id, '(' .. id .. '~')
  end
end
drops, adds = {}, {}
for _, attempt in ipairs(attempts) do add(ATTEMPTS, attempt) end
write_all('ZADD', adds)
if ARGV[3] ~= '' then redis.call('HINCRBY', COUNTERS, 'graph', 1) end
if not next(hash_adds) and not next(hash_drops) then
  -- Nothing was written. Replicas that have this write have everything before it, too.
  redis.call('HINCRBY', COUNTERS, 'graph', 0)
end
if ARGV[4] ~= '0' then
  redis.call('RENAME', GATHERED, INTENT)
  redis.call('PERSIST', INTENT)
end
if ARGV[2] ~= '' then redis.call('PUBLISH', WAKE, ARGV[2]) end
if ended ~= '' and are_ends_heard() then redis.call('PUBLISH', ENDS, ended) end
return 1
