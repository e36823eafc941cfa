-- Part of scripts that end jobs: publishes which, if anyone listens.
local function are_ends_heard()
  return redis.call('PUBSUB', 'NUMSUB', ENDS)[2] ~= 0  -- Valkey 9.1 may give any number but 0
end
