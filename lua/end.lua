-- Purpose: ends a sale early, at once and by the time of the server itself.
-- KEYS: 1 sale hash
-- ARGV: 1 epoch as SQL has it · 2 end, ms
-- Answers: SET · STALE (the hash is missing or of another epoch: its load copies the end anyway)
--          error ARGUMENT: nothing was read or written
-- Writes: end, which never moves later by this, and a begin that is not before it
-- Repeat safety: ending again changes nothing

if #ARGV ~= 2 or not string.find(ARGV[1], '^[1-9]%d*$') or not string.find(ARGV[2], '^[1-9]%d*$') then
  return redis.error_reply('ARGUMENT end takes an epoch and a time')
end

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'end', 'begin')
if sale[1] ~= ARGV[1] then return 'STALE' end
-- A clock here that is behind the caller's must not sell on until it has caught up.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local past = math.min(tonumber(ARGV[2]), now, tonumber(sale[2] or '') or now)
redis.call('HSET', KEYS[1], 'end', string.format('%.0f', past))
-- A sale that never began is over, and not still to come.
if (tonumber(sale[3] or '') or past) >= past then redis.call('HSET', KEYS[1], 'begin', string.format('%.0f', past - 1)) end
return 'SET'
