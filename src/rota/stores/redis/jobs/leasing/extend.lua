-- extend: let leases last until then, at least
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    until when; then for each lease its job's id and its token
-- reply   for each 1, or 0 when it is lost
-- atomic  because a lease must not pass to another between the comparison and the writing
-- uses    shelf
local ids, answer, later = {}, {}, {}
for at = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
fetch_heads(ids)
for place, id in ipairs(ids) do
  local head = get_head(id)
  local is_held = head and head[CODE] == 'U' and head[TOKEN] == ARGV[2 * place + 1]
  if is_held and head[UNTIL] < ARGV[1] then
    drop(LEASED, head[UNTIL] .. id)
    head[UNTIL] = ARGV[1]
    later[#later + 1] = id
    put_head(id, head)
  end
  answer[place] = is_held and 1 or 0
end
for _, id in ipairs(later) do add(LEASED, ARGV[1] .. id) end
write_out()
return answer
