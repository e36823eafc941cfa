-- apply: write each change that still holds, with its consequences
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; the sender; the changes in MessagePack, each as many texts as settling.py has them:
--         COMPLETION_LENGTH when it only completes its job; then for each change with a successor
--         the body of the job it was made from, and the successor's head and body
-- reply   the places where there is something to lease; 1 when the dependents of the last change
--         are not all told yet; and for each change that was looked at its answer: 'stale'; or
--         'moved', when the job a successor was made from is not as it was (the last one then: make
--         it again); or 1 when it was written, and there is nothing else to tell; or 1 when the
--         successor was kept, 1 when the job was removed, and the ids of those released and of those
--         blocked
-- atomic  because a token must not pass to another between the comparison and the writing, and
--         because two jobs that end together must release their dependent once. Bounded by the
--         changes and MOST_TOLD
-- uses    heads
-- A server without memory refuses a script whose first write takes some, and no other. Here the first
-- one gives some back: what was done is written down. More is not handed out meanwhile.
local now = ARGV[1]
local COMPLETION_LENGTH = 6

local function still_holds(head, tenant, code, token, is_loss)
  if not head or head[TENANT] ~= tenant or head[TOKEN] ~= token then return false end
  if (head[CODE] == 'D' and 'F' or head[CODE]) ~= code then return false end
  return is_loss == '' or (head[UNTIL] ~= '' and head[UNTIL] < now)
end

local changes, ids, are_completions = cmsgpack.unpack(ARGV[3]), {}, true
for place, change in ipairs(changes) do
  ids[place] = change[1]
  are_completions = are_completions and #change == COMPLETION_LENGTH
end

-- Those that ended and on which others depend are not in `ended`.
local function leave_out_parents(ended, completed)
  if redis.call('EXISTS', CHILDREN) == 0 then return ended end
  local left = {}
  for at, id in ipairs(completed) do
    local found = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. id, '(' .. id .. '~', 'LIMIT', 0, 1)
    if #found == 0 then
      left[#left + 1] = '0'
      left[#left + 1] = ended[2 * at]
    end
  end
  return left
end

-- Completes all, where nobody waits for any job.
local function complete_all()
  local answers, seen, completed, heads, running, done = {}, {}, {}, {}, {}, {}
  local leased, ended, tallies = {}, {}, {}
  for at, text in ipairs(get_all(HEADS, ids)) do
    local id, tenant, token, due, updated, moved = unpack(changes[at])
    local head = text and not seen[id] and read_head(text)
    answers[at] = 'stale'
    if still_holds(head, tenant, 'U', token, '') then
      local place, count, field = place_of(id, head), #completed + 1, 'U' .. lane_of(head)
      local even = 2 * count
      running[count], leased[count] = place, head[UNTIL] .. id
      if head[DUE] ~= due then
        head[DUE] = due
        place = place_of(id, head)
      end
      head[CODE], head[UPDATED], head[MOVED] = 'C', updated, moved
      head[UNTIL], head[WORKER], head[TAKEN] = '', '', ''
      heads[even - 1], heads[even] = id, write_head(head)
      done[even - 1], done[even] = '0', place
      ended[even - 1], ended[even] = '0', updated .. id
      tallies[field] = (tallies[field] or 0) - 1
      completed[count], seen[id], answers[at] = id, true, 1
    end
  end
  in_parts('ZREM', RUNNING, running)
  in_parts('ZREM', LEASED, leased)
  in_parts('HSET', HEADS, heads)
  in_parts('ZADD', COMPLETED, done)
  in_parts('ZADD', ENDED, leave_out_parents(ended, completed))
  tally(tallies)
  return {'', 0, answers}
end

-- Mostly that is all there is to do; then what other changes need is not even defined.
if are_completions and redis.call('EXISTS', OPEN) == 0 then return complete_all() end

-- uses    shelf
-- uses    consequences
local MOVE_LENGTH = 8

-- Keeps the successor unless there is one already.
local function continue_series(id, head, body)
  if id == '' or has_head(id) then return 0 end
  local its = read_head(head)
  if its[IDENTITY] ~= '' and redis.call('HEXISTS', IDENTITIES, its[IDENTITY]) == 1 then return 0 end
  keep(id, its, head, body, now)
  return 1
end

-- Completes a job, of which nothing is known but that it was leased under that token.
local function complete(change)
  local id, tenant, token, due, updated, moved = unpack(change)
  local head = get_head(id)
  if not still_holds(head, tenant, 'U', token, '') then return 'stale', true end
  local place = take_out(id, head)
  if head[DUE] ~= due then place = nil end
  head[CODE], head[DUE], head[UPDATED], head[MOVED] = 'C', due, updated, moved
  head[UNTIL], head[WORKER], head[TAKEN] = '', '', ''
  put_head(id, head)
  file(id, head, now, place)
  if not has_any(OPEN) then return 1, true end
  local released, blocked = {}, {}
  local is_done = tell(now, id, {id}, now, released, blocked)
  return {0, 0, released, blocked}, is_done
end

-- Whether the job that a successor was made from is as it was then.
local function is_as_read(id, head, kept_place, kept_body)
  local body = bodies[id] or redis.call('HGET', BODIES, id)
  return head[QUEUE] .. '\0' .. head[RANK] == kept_place and body == kept_body
end

local successor_at, has_begun = 4, false

local function carry_out(change)
  local id, tenant, code, token, is_loss = unpack(change, 1, 5)
  local attempt, goes, kept_place, successor = unpack(change, 14, 17)
  local kept_body, successor_head, successor_body = unpack(ARGV, successor_at, successor_at + 2)
  if successor ~= '' then successor_at = successor_at + 3 end
  local head = get_head(id)
  if not still_holds(head, tenant, code, token, is_loss) then return 'stale', true end
  if successor ~= '' and not is_as_read(id, head, kept_place, kept_body) then
    return 'moved', false
  end
  take_out(id, head)
  if head[CODE] == 'P' then stop_waiting(id, head) end
  for part = 1, MOVE_LENGTH do head[part] = change[5 + part] end
  put_head(id, head)
  file(id, head, now)
  if not has_begun then write_drops() end
  has_begun = true
  if attempt ~= '' then redis.call('ZADD', ATTEMPTS, '0', id .. attempt) end
  local is_kept = continue_series(successor, successor_head, successor_body)
  local released, blocked, is_done = {}, {}, true
  if TERMINAL[head[CODE]] then is_done = tell(now, id, {id}, now, released, blocked) end
  local is_removed = 0
  if goes == '1' and not has_children(id) then
    remove(id, head)
    is_removed = 1
  end
  return {is_kept, is_removed, released, blocked}, is_done
end

local answers, is_unfinished = {}, 0
fetch_heads(ids)
for place, change in ipairs(changes) do
  local is_completion = #change == COMPLETION_LENGTH
  local answer, is_done
  if is_completion then
    answer, is_done = complete(change)
  else
    answer, is_done = carry_out(change)
  end
  answers[place] = answer
  if not is_done then
    is_unfinished = answer == 'moved' and 0 or 1
    break
  end
end
write_out()
return {ring(ARGV[2]), is_unfinished, answers}
