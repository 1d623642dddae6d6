-- Purpose: adds to the refusal counters of a sale what a process counted in the last second.
-- KEYS: 1 sale hash
-- ARGV: a code and a number for each counter
-- Answers: COUNTED · GONE (the hash is missing; none is made)
--          error ARGUMENT: nothing was read or written
-- Writes: fields refused:CODE
-- Repeat safety: none; a repeat counts twice. The counters are for people, nothing depends on them

if #ARGV == 0 or #ARGV % 2 ~= 0 then return redis.error_reply('ARGUMENT count takes pairs') end
for i = 1, #ARGV, 2 do
  if not string.find(ARGV[i], '^[A-Z_]+$') or not string.find(ARGV[i + 1], '^[1-9]%d*$') then
    return redis.error_reply('ARGUMENT count takes pairs of a code and a number')
  end
end

if redis.call('EXISTS', KEYS[1]) == 0 then return 'GONE' end
for i = 1, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], 'refused:' .. ARGV[i], ARGV[i + 1]) end
return 'COUNTED'
