-- Purpose: tries a login code; each code is good once, and for a few tries.
-- KEYS: 1 login code of the phone
-- ARGV: 1 code as typed · 2 tries that a code lives through
-- Answers: GOOD · BAD (another one, too old, too often tried, or none was sent)
--          error ARGUMENT: nothing was read or written
-- Writes: counts the try; a code that was right, or tried too often, goes away
-- Repeat safety: a code that was GOOD once is BAD ever after

if #ARGV ~= 2 or not string.find(ARGV[2], '^[1-9]%d*$') then return redis.error_reply('ARGUMENT code_try takes code and tries') end
local right = redis.call('HGET', KEYS[1], 'code')
if not right then return 'BAD' end
if right == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 'GOOD'
end
-- The hash stays to its end: "one a minute" is counted by it.
if redis.call('HINCRBY', KEYS[1], 'tries', 1) >= tonumber(ARGV[2]) then redis.call('HDEL', KEYS[1], 'code') end
return 'BAD'
