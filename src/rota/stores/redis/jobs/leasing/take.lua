-- take: hand out the jobs that were chosen, if nothing has changed since
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; until when; the worker; how often jobs had been handed out when they were chosen, or
--         '' when that does not matter; then for each job its id, tenant and queue
-- reply   nil when another was handed out, or one of them is not there to be taken any more: choose
--         again. Else the ids, heads and bodies
-- atomic  because limits hold only while nobody else is handed a job in between
-- uses    line
local now = ARGV[1]
if ARGV[4] ~= '' and (redis.call('HGET', COUNTERS, 'leases') or '0') ~= ARGV[4] then return false end
local ids, taken = {}, {}
for at = 5, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
for place, text in ipairs(get_all(HEADS, ids)) do
  local id, at = ids[place], 2 + 3 * place
  local head = text and read_head(text)
  if not head or head[CODE] ~= 'R' or head[DUE] > now then return false end
  if head[TENANT] ~= ARGV[at + 1] or head[QUEUE] ~= ARGV[at + 2] then return false end
  taken[place] = {id = id, head = head, place = place_of(id, head)}
end
-- It may be due, and not have been let into the line yet.
local places, later, timetable = {}, {}, {}
for at, job in ipairs(taken) do
  local due = job.head[DUE] .. job.id
  places[at], later[at], timetable[at] = job.place, due, lane_of(job.head) .. due
end
local answer = hand_out(taken, now, ARGV[2], ARGV[3])
in_parts('ZREM', READY, places)
in_parts('ZREM', LATER, later)
in_parts('ZREM', FUTURE, places)
in_parts('ZREM', TIMETABLE, timetable)
return answer
