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
local members
if ARGV[3] ~= '' then
  members = redis.call('ZRANGEBYLEX', CASCADES, '[' .. ARGV[3], '(' .. ARGV[3] .. '~')
else
  members = redis.call('ZRANGEBYLEX', CASCADES, '-', '(' .. ARGV[4], 'LIMIT', 0, 1)
end
local released, blocked, is_done = {}, {}, true
if #members > 0 then
  local began = string.sub(members[1], 1, INSTANT_LENGTH)
  local root = string.sub(members[1], INSTANT_LENGTH + 1, INSTANT_LENGTH + ID_LENGTH)
  local ended = {}
  for place, member in ipairs(members) do ended[place] = string.sub(member, -ID_LENGTH) end
  is_done = tell(began, root, ended, ARGV[1], released, blocked)
end
return {ring(ARGV[2]), is_done and 0 or 1, released, blocked}
