-- complete: complete RUNNING jobs on which no other job depends
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    in MessagePack, for each job its id, tenant, token, due, updated and trials
-- reply   for each 1; or 0 if nothing was written: its lease is lost, another job depends on it, or
--         it is due at another time
-- atomic  because a lease must not pass to another between the comparison and the write
-- A server without memory refuses a script whose first write takes some. Here the first one gives
-- some back: the end of a job is written. Meanwhile no more jobs are leased.
-- uses    heads
local changes, ids = cmsgpack.unpack(ARGV[1]), {}
for at = 1, #changes, 6 do ids[#ids + 1] = changes[at] end

local answers, completed, heads, running, done = {}, {}, {}, {}, {}
local leased, ended, counted, length = {}, {}, {}, 0
for at, text in ipairs(get_all(HEADS, ids)) do
  local id, tenant, token, due, updated, trials = unpack(changes, 6 * at - 5, 6 * at)
  local head = text and not completed[id] and read_head(text)
  local is_held = head and head[CODE] == 'U' and head[TOKEN] == token and head[DUE] == due
    and string.sub(head[SLOT], 1, #tenant + 1) == tenant .. '\0'
  answers[at] = 0
  if is_held and not is_awaited(head) then
    local place, field = head[SLOT] .. id, 'U' .. partition_of(head)
    length = length + 1
    local even = 2 * length
    running[length], leased[length] = place, head[UNTIL] .. id
    head[CODE], head[UPDATED], head[TRIALS] = 'C', updated, trials
    head[UNTIL], head[WORKER], head[TAKEN] = '', '', ''
    heads[even - 1], heads[even] = id, write_head(head)
    done[even - 1], done[even] = '0', place
    ended[even - 1], ended[even] = '0', updated .. id
    counted[field] = (counted[field] or 0) - 1
    completed[id], answers[at] = true, 1
  end
end
in_parts('ZREM', RUNNING, running)
in_parts('ZREM', LEASED, leased)
in_parts('HSET', HEADS, heads)
in_parts('ZADD', COMPLETED, done)
in_parts('ZADD', ENDED, ended)
count_all(counted)
return answers
