-- Purpose: gives one unit back, only if that very order still holds it.
-- KEYS: 1 sale hash · 2 stock · 3 holders
-- ARGV: 1 epoch as SQL has it · 2 user id · 3 order id
-- Answers: DONE (given back now, or nothing left to give back) · NOT_READY (other epoch, other server, a key is lost: ask again later)
--          error ARGUMENT: nothing was read or written
-- Writes: removes the holder, adds one to the stock
-- Repeat safety: for ever; the second time the holder is gone or another order, and nothing changes

for i = 1, 3 do
  if #ARGV ~= 3 or not string.find(ARGV[i], '^[1-9]%d*$') then
    return redis.error_reply('ARGUMENT release takes epoch, user and order')
  end
end

-- Not against a wrong holder, for ids are unique, but against a wrong server: an old primary must not swallow a release.
local sale = redis.call('HMGET', KEYS[1], 'epoch', 'run_id')
if sale[1] ~= ARGV[1] or sale[2] ~= string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') then return 'NOT_READY' end
-- INCR would make a lost stock key anew, with one unit in it, and would stop after the HDEL at one that is no number.
if not string.find(redis.call('GET', KEYS[2]) or '', '^%-?%d+$') then return 'NOT_READY' end

if redis.call('HGET', KEYS[3], ARGV[2]) == ARGV[3] then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('INCR', KEYS[2])
end
return 'DONE'
