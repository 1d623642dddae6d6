-- Purpose: counts one guess at an account before it is checked; the more of them, the longer the next one waits.
-- KEYS: 1 limit of the account
-- ARGV: 1 now, ms · 2 guesses that wait for nothing · 3 the first wait, ms · 4 the longest wait, ms · 5 when it is forgotten, ms
-- Answers: 0: go on · else the ms to wait, and nothing was counted
--          error ARGUMENT: nothing was read or written
-- Writes: the number of guesses, and when the next one may come
-- Repeat safety: a repeat counts as one more guess

for i = 1, 5 do
  if #ARGV ~= 5 or not string.find(ARGV[i], '^%d+$') then return redis.error_reply('ARGUMENT guess takes now and four numbers') end
end
local now = tonumber(ARGV[1])
local known = redis.call('HMGET', KEYS[1], 'guesses', 'next')
local guesses, next_at = tonumber(known[1] or 0), tonumber(known[2] or 0)
if next_at > now then return next_at - now end
guesses = guesses + 1
local over, wait = guesses - tonumber(ARGV[2]), 0
-- Doubled with each guess; the exponent is bounded, or the number would grow past what Lua counts.
if over >= 0 then wait = math.min(tonumber(ARGV[3]) * 2 ^ math.min(over, 30), tonumber(ARGV[4])) end
-- Without a wait nothing is written that a call with an earlier clock, on its way at the same time, would have to wait for.
redis.call('HSET', KEYS[1], 'guesses', guesses, 'next', wait > 0 and string.format('%d', now + wait) or 0)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 0
