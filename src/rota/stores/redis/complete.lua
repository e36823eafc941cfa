-- complete: complete RUNNING jobs on which no other job depends
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the sender; in MessagePack, for each job its id, tenant, token, due, updated, trials, and
--         when it started; '' or in MessagePack, for each job with a result or a log, its place
--         among the jobs, '' or the result, and '' or the attempt
-- reply   for each 1; or 0 if nothing was written: its lease is lost, another job depends on it, or
--         it is due at another time
-- atomic  because a lease must not pass to another between the comparison and the write
-- A server without memory refuses a script whose first write takes some. Here the first one gives
-- some back: the end of a job is written. Meanwhile no more jobs are leased.
-- uses    heads
-- uses    ends
local WIDTH = 7
local changes, ids = cmsgpack.unpack(ARGV[2]), {}
for at = 1, #changes, WIDTH do ids[#ids + 1] = changes[at] end

local answers, is_completed, completed, heads, running, done = {}, {}, {}, {}, {}, {}
local leased, ended, length = {}, {}, 0
for at, text in ipairs(get_all(HEADS, ids)) do
  local id, tenant, token, due, updated, trials, started =
    unpack(changes, WIDTH * (at - 1) + 1, WIDTH * at)
  local head = text and not is_completed[id] and read_head(text)
  local is_held = head and head[CODE] == 'U' and head[TOKEN] == token and head[DUE] == due
    and string.sub(head[SLOT], 1, #tenant + 1) == tenant .. '\0'
  answers[at] = 0
  if is_held and not is_awaited(head) then
    local place = head[SLOT] .. id
    length = length + 1
    local even = 2 * length
    running[length], leased[length] = place, head[UNTIL] .. id
    head[CODE], head[UPDATED], head[TRIALS] = 'C', updated, trials
    head[UNTIL], head[TAKEN] = '', started
    if started == '' then head[WORKER] = '' end
    heads[even - 1], heads[even] = id, write_head(head)
    done[even - 1], done[even] = '0', place
    ended[even - 1], ended[even] = '0', updated .. id
    is_completed[id], completed[length], answers[at] = true, id, 1
  end
end
in_parts('ZREM', RUNNING, running)
in_parts('ZREM', LEASED, leased)
in_parts('HSET', HEADS, heads)
in_parts('ZADD', COMPLETED, done)
in_parts('ZADD', ENDED, ended)
if ARGV[3] ~= '' then
  local reports, results, attempts = cmsgpack.unpack(ARGV[3]), {}, {}
  for at = 1, #reports, 3 do
    local place, result, attempt = unpack(reports, at, at + 2)
    if answers[place] == 1 and result ~= '' then
      results[#results + 1] = ids[place]
      results[#results + 1] = result
    end
    if answers[place] == 1 and attempt ~= '' then
      attempts[#attempts + 1] = '0'
      attempts[#attempts + 1] = attempt
    end
  end
  in_parts('HSET', RESULTS, results)
  in_parts('ZADD', ATTEMPTS, attempts)
end
if length > 0 and are_ends_heard() then
  redis.call('PUBLISH', ENDS, ARGV[1] .. table.concat(completed))
end
return answers
