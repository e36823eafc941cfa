-- cascade: go on telling dependents where a script has left off
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    now; the sender; when the cascade began and of which job, written together; or '' and an
--         instant: any that began before that, and whose process seems to be gone
-- reply   the places where there is something to lease; 1 when there is still more; the ids of
--         those released and of those blocked
-- atomic  because an end that was told and an end that is noted as told must be the same. Bounded
--         by MOST_TOLD
-- uses    shelf
-- uses    consequences
local first, till = '[' .. ARGV[3], '(' .. ARGV[3] .. '~'
if ARGV[3] == '' then first, till = '-', '(' .. ARGV[4] end
local members = redis.call('ZRANGEBYLEX', CASCADES, first, till, 'LIMIT', 0, MOST_TOLD)
local released, blocked = {}, {}
for _, member in ipairs(members) do
  local began = string.sub(member, 1, INSTANT_LENGTH)
  local root = string.sub(member, INSTANT_LENGTH + 1, INSTANT_LENGTH + ID_LENGTH)
  local ended = {string.sub(member, -ID_LENGTH)}
  if not tell(began, root, ended, ARGV[1], released, blocked) then break end
  -- Where nobody waits for anybody any more, nothing was looked at, and it is still noted.
  redis.call('ZREM', CASCADES, member)
end
local left = redis.call('ZRANGEBYLEX', CASCADES, first, till, 'LIMIT', 0, 1)
write_out()
return {ring(ARGV[2]), #left, released, blocked}
