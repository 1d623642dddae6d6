-- Purpose: remembers a login code of a phone, unless one was sent a moment ago.
-- KEYS: 1 login code of the phone
-- ARGV: 1 code · 2 how long it counts, ms · 3 how long no other is sent, ms
-- Answers: {'SET', 0} · {'WAIT', ms until another may be sent}
--          error ARGUMENT: nothing was read or written
-- Writes: the code with no try against it, and its end
-- Repeat safety: the second call hears WAIT

for i = 1, 3 do
  if #ARGV ~= 3 or not string.find(ARGV[i], '^%d+$') then return redis.error_reply('ARGUMENT code_new takes code, life and pause') end
end
-- A code that was guessed at too often is kept, empty, so that guessing does not send more of them.
local wait = redis.call('PTTL', KEYS[1]) - (tonumber(ARGV[2]) - tonumber(ARGV[3]))
if wait > 0 then return {'WAIT', wait} end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'code', ARGV[1], 'tries', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'SET', 0}
