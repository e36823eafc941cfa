-- count: how many jobs of a tenant a filter accepts
-- KEYS    those of jobs, as keys.py lists them
-- ARGV    the tenant; the codes; '' or the queue; the lowest and the highest rank; the letters; the
--         instants from which on and before which jobs were created
-- reply   the number
-- atomic  because a job that moves meanwhile must be counted once. Bounded by the lanes
-- uses    shelf
-- uses    listing
local number = 0
each_lane(function(key, lane)
  number = number + redis.call(
    'ZLEXCOUNT', key, '[' .. lane .. ARGV[7], '(' .. lane .. ARGV[8])
end, unpack(ARGV, 1, 6))
return number
