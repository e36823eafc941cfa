-- attempts: the attempts of a job that did not succeed
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; the id
-- reply   token and JSON, written together, the first one first
-- atomic  because a job of another tenant has none
-- uses    shelf
local head = get_head(ARGV[2])
if not head or head[TENANT] ~= ARGV[1] then return {} end
local found = redis.call('ZRANGEBYLEX', ATTEMPTS, '[' .. ARGV[2], '(' .. ARGV[2] .. '~')
for place, member in ipairs(found) do found[place] = string.sub(member, ID_LENGTH + 1) end
return found
