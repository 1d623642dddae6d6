-- Purpose: copies SQL's "paused" into the gate, without touching whether it is open.
-- KEYS: 1 sale hash
-- ARGV: 1 epoch as SQL has it · 2 paused, 0 or 1
-- Answers: SET · STALE (the hash is missing or of another epoch: its load copies the truth anyway)
--          error ARGUMENT: nothing was read or written
-- Writes: paused
-- Repeat safety: setting again changes nothing

if #ARGV ~= 2 or not string.find(ARGV[1], '^[1-9]%d*$') or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ARGUMENT pause takes an epoch, and 0 or 1')
end

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 'STALE' end
redis.call('HSET', KEYS[1], 'paused', ARGV[2])
return 'SET'
