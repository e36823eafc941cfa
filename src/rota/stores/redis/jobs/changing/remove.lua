-- remove: let a job go, unless others depend on it
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the job's id, and its head as it was read
-- reply   nil when it is not as it was: read again. Else the ids of those that depend on it; none
--         when it is gone
-- atomic  because nobody may come to depend on a job that is about to go
-- uses    shelf
local id = ARGV[1]
if redis.call('HGET', HEADS, id) ~= ARGV[2] then return false end
local edges = redis.call('ZRANGEBYLEX', CHILDREN, '[' .. id, '(' .. id .. '~')
if #edges == 0 then remove(id, read_head(ARGV[2])) end
write_out()
local children = {}
for place, edge in ipairs(edges) do children[place] = string.sub(edge, ID_LENGTH + 1) end
return children
