-- Part of scripts that end jobs: publishes which, if anyone listens.
local WAKE, ENDS = KEYS[23], KEYS[24]

local function are_ends_heard()
  return redis.call('PUBSUB', 'NUMSUB', ENDS)[2] > 0
end
