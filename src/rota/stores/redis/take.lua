-- take: lease jobs that were chosen, those that can still be leased
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; until when; the worker; the number of leases at which they were chosen, or '' if it
--         does not matter; '' or the kinds as a JSON array; '' or the labels; then for each job its
--         id, tenant and queue
-- reply   nil if there were other leases since, and nothing is leased. Else the ids, heads and
--         bodies
-- atomic  because a cap holds only if no other job is leased in between
-- uses    choice
local now = ARGV[1]
if ARGV[4] ~= '' and (redis.call('HGET', COUNTERS, 'leases') or '0') ~= ARGV[4] then return false end
local ids, taken, taken_bodies, places, later, timetable = {}, {}, {}, {}, {}, {}
for at = 7, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
local bodies = get_all(BODIES, ids)
choose(ARGV[5], ARGV[6])
for place, text in ipairs(get_all(HEADS, ids)) do
  local id, head = ids[place], text and read_head(text)
  if head and head[CODE] == 'R' and head[DUE] <= now and accepts(bodies[place])
    and partition_of(head) == ARGV[5 + 3 * place] .. '\0' .. ARGV[6 + 3 * place] .. '\0' then
    local due, at = head[DUE] .. id, #taken + 1
    taken[at] = {id = id, head = head, place = head[SLOT] .. id}
    taken_bodies[at] = bodies[place]
    -- It may be due and not be in `ready` yet.
    places[at], later[at], timetable[at] = taken[at].place, due, partition_of(head) .. due
  end
end
local answer = lease_all(taken, taken_bodies, now, ARGV[2], ARGV[3])
in_parts('ZREM', READY, places)
in_parts('ZREM', LATER, later)
in_parts('ZREM', FUTURE, places)
in_parts('ZREM', TIMETABLE, timetable)
return answer
