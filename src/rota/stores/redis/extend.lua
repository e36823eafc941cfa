-- extend: extend leases; never shortens one
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    until when; then for each lease its job's id and its token
-- reply   for each 1, or 0 if it is lost
-- atomic  because a lease must not pass to another between the comparison and the write
-- uses    heads
local till, ids, answers = ARGV[1], {}, {}
for at = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
local before, after, heads, extended = {}, {}, {}, {}
for place, text in ipairs(get_all(HEADS, ids)) do
  local id, head = ids[place], text and read_head(text)
  local is_held = head and head[CODE] == 'U' and head[TOKEN] == ARGV[2 * place + 1]
  answers[place] = is_held and 1 or 0
  if is_held and head[UNTIL] < till and not extended[id] then
    extended[id] = true
    before[#before + 1] = head[UNTIL] .. id
    head[UNTIL] = till
    after[#after + 1] = '0'
    after[#after + 1] = till .. id
    heads[#heads + 1] = id
    heads[#heads + 1] = write_head(head)
  end
end
in_parts('ZREM', LEASED, before)
in_parts('ZADD', LEASED, after)
in_parts('HSET', HEADS, heads)
if not heads[1] then
  -- Nothing was written. Replicas that have this write have everything before it, too.
  redis.call('HINCRBY', COUNTERS, 'graph', 0)
end
return answers
