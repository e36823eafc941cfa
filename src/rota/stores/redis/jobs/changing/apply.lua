-- apply: write each change that still holds, with its consequences
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; the sender; then for each change CHANGE_LENGTH texts, as settling.py has them
-- reply   the places where there is something to lease; 1 when the dependents of the last change
--         are not all told yet; and for each change that was looked at its answer: 'stale'; or
--         'moved', when the job a successor was made from is not as it was (the last one then: make
--         it again); or 1 when the successor was kept, 1 when the job was removed, and the ids of
--         those released and of those blocked
-- atomic  because a token must not pass to another between the comparison and the writing, and
--         because two jobs that end together must release their dependent once. Bounded by the
--         changes and MOST_TOLD
-- uses    shelf
-- uses    consequences
local now = ARGV[1]
local CHANGE_LENGTH = 20
local MOVE_LENGTH = 8

local function still_holds(head, tenant, code, token, is_loss)
  if not head or head[TENANT] ~= tenant or head[TOKEN] ~= token then return false end
  if (head[CODE] == 'D' and 'F' or head[CODE]) ~= code then return false end
  return is_loss == '' or (head[UNTIL] ~= '' and head[UNTIL] < now)
end

-- Keeps the successor unless there is one already.
local function continue_series(id, head, body)
  if id == '' or has_head(id) then return 0 end
  local its = cjson.decode(head)
  if its[IDENTITY] ~= '' and redis.call('HEXISTS', IDENTITIES, its[IDENTITY]) == 1 then return 0 end
  keep(id, its, head, body, now)
  return 1
end

local answers, is_unfinished = {}, 0
for at = 3, #ARGV, CHANGE_LENGTH do
  local id, tenant, code, token, is_loss = unpack(ARGV, at, at + 4)
  local attempt, goes, kept_place, kept_body = unpack(ARGV, at + 13, at + 16)
  local successor, successor_head, successor_body = unpack(ARGV, at + 17, at + 19)
  local head = get_head(id)
  local answer = 'stale'
  if still_holds(head, tenant, code, token, is_loss) then
    if successor ~= '' then
      local place = head[QUEUE] .. '\0' .. head[RANK]
      local body = bodies[id] or redis.call('HGET', BODIES, id)
      if place ~= kept_place or body ~= kept_body then
        answers[#answers + 1] = 'moved'
        break
      end
    end
    take_out(id, head)
    if head[CODE] == 'P' then stop_waiting(id, head) end
    for part = 1, MOVE_LENGTH do head[part] = ARGV[at + 4 + part] end
    put_head(id, head)
    file(id, head, now)
    if attempt ~= '' then redis.call('ZADD', ATTEMPTS, 0, id .. attempt) end
    local released, blocked = {}, {}
    local is_kept = continue_series(successor, successor_head, successor_body)
    if TERMINAL[head[CODE]] and not tell(now, id, {id}, now, released, blocked) then
      is_unfinished = 1
    end
    local is_removed = 0
    if goes == '1' and not has_children(id) then
      remove(id, head)
      is_removed = 1
    end
    answer = {is_kept, is_removed, released, blocked}
  end
  answers[#answers + 1] = answer
  if is_unfinished == 1 then break end
end
write_out()
return {ring(ARGV[2]), is_unfinished, answers}
