-- Purpose: puts a large holder set together in chunks, in a key of its own, before load.lua renames it.
-- KEYS: 1 staging hash
-- ARGV: 1 claim: the burnt number of this rebuild · then a user id and an order id for each holder
-- Answers: STAGED · REFUSED (a later rebuild is staging)
--          error ARGUMENT: nothing was read or written
-- Writes: the staging hash, with the claim in a field of its own; it goes away by itself after ten minutes
-- Repeat safety: the same chunk again changes nothing; a higher claim starts afresh

local joined = ' ' .. table.concat(ARGV, ' ')
if #ARGV < 3 or #ARGV % 2 ~= 1 or string.find(joined, '[^ %d]') or string.find(joined, '  ', 1, true)
  or string.find(joined, ' 0', 1, true) or string.sub(joined, -1) == ' ' then
  return redis.error_reply('ARGUMENT stage takes a claim, then pairs')
end

local claim = redis.call('HGET', KEYS[1], 'claim')
if claim and tonumber(claim) > tonumber(ARGV[1]) then return 'REFUSED' end
if claim ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'claim', ARGV[1])
end
for from = 2, #ARGV, 2000 do redis.call('HSET', KEYS[1], unpack(ARGV, from, math.min(from + 1999, #ARGV))) end
redis.call('EXPIRE', KEYS[1], 600)
return 'STAGED'
