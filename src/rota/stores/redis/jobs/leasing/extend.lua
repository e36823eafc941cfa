-- extend: let leases last until then, at least
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    until when; then for each lease its job's id and its token
-- reply   for each 1, or 0 when it is lost
-- atomic  because a lease must not pass to another between the comparison and the writing
-- uses    shelf
local answer = {}
for at = 2, #ARGV, 2 do
  local head = get_head(ARGV[at])
  local is_held = head and head[CODE] == 'U' and head[TOKEN] == ARGV[at + 1]
  if is_held and head[UNTIL] < ARGV[1] then
    drop(LEASED, head[UNTIL] .. ARGV[at])
    head[UNTIL] = ARGV[1]
    add(LEASED, head[UNTIL] .. ARGV[at])
    put_head(ARGV[at], head)
  end
  answer[#answer + 1] = is_held and 1 or 0
end
write_out()
return answer
