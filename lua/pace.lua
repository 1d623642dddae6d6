-- Purpose: shares out the orders a second that all workers together may save, by the server's own clock
-- KEYS: 1 the time (µs since 1970) from which the next order may be saved, `limit:orders`
-- ARGV: 1 orders a second · 2 orders to be saved now; 0 asks only
-- Answers: µs to wait before they may be saved (0: at once)
--          error ARGUMENT: nothing was read or written
-- Writes: the key, with a life a minute past its time
-- Repeat safety: none; a repeat counts the same orders twice, so that less is saved than might be, never more

local per_second, orders = tonumber(ARGV[1]), tonumber(ARGV[2])
if not per_second or per_second < 1 or not orders or orders < 0 or orders ~= math.floor(orders) then
  return redis.error_reply('ARGUMENT pace takes orders a second and a number of orders')
end

-- What nobody used is kept for a twentieth of a second: a worker that wakes late loses nothing by it, a quiet minute saves up nothing.
local KEPT, FAR = 50000, 60000000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local from = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
-- Further ahead than any queue of workers: the clock was set back.
if from > now + FAR then from = now end
if from < now - KEPT then from = now - KEPT end
if orders > 0 then
  local till = string.format('%.0f', from + orders * 1000000 / per_second)
  redis.call('SET', KEYS[1], till, 'PX', string.format('%.0f', math.max(0, from - now) / 1000 + orders * 1000 / per_second + 60000))
end
return math.max(0, math.ceil(from - now))
