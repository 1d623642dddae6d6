-- Purpose: opens the gate after the rebuild's commit is known.
-- KEYS: 1 sale hash
-- ARGV: 1 claim: the burnt number, by now SQL's epoch
-- Answers: OPEN · REFUSED (the hash is missing, or its epoch or claim is another: somebody else is rebuilding)
--          error ARGUMENT: nothing was read or written
-- Writes: state
-- Repeat safety: opening again changes nothing; a late call cannot open in somebody else's drain

if #ARGV ~= 1 or not string.find(ARGV[1], '^[1-9]%d*$') then return redis.error_reply('ARGUMENT open takes a claim') end

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'claim')
if sale[1] ~= ARGV[1] or sale[2] ~= ARGV[1] then return 'REFUSED' end
redis.call('HSET', KEYS[1], 'state', 'open')
return 'OPEN'
