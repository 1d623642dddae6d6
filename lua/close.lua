-- Purpose: shuts the gate of a sale for the rebuild that burnt the number in ARGV[1].
-- KEYS: 1 sale hash · 2 stream of the lane
-- ARGV: 1 claim: the burnt number
-- Answers: {'CLOSED', the stream's last generated id, '0-0' without a stream}: drain up to it
--          {'REFUSED', the higher claim that is there}: a later rebuild is under way
--          error ARGUMENT: nothing was read or written
-- Writes: state and claim of a sale hash that is there; a missing one is not made, and a key of another type is as good as missing
-- Repeat safety: closing again with the same claim changes nothing

if #ARGV ~= 1 or not string.find(ARGV[1], '^[1-9]%d*$') then return redis.error_reply('ARGUMENT close takes a claim') end

if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  local claim = redis.call('HGET', KEYS[1], 'claim')
  if claim and (tonumber(claim) or 0) > tonumber(ARGV[1]) then return {'REFUSED', claim} end
  redis.call('HSET', KEYS[1], 'state', 'closed', 'claim', ARGV[1])
end
local last = '0-0'
if redis.call('TYPE', KEYS[2]).ok == 'stream' then
  local info = redis.call('XINFO', 'STREAM', KEYS[2])
  for k = 1, #info, 2 do
    if info[k] == 'last-generated-id' then last = info[k + 1] end
  end
end
return {'CLOSED', last}
