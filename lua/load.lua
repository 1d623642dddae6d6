-- Purpose: writes a sale into the gate as SQL has it under its row lock. The gate stays shut: open.lua comes after the commit.
-- KEYS: 1 sale hash · 2 stock · 3 holders · 4 staging hash · 5 stream of the lane · 6 set of the lane's sales · 7 places of the lane
-- ARGV: 1 claim: the burnt number, the new epoch · 2 units left · 3 total · 4 paused, 0 or 1 · 5 begin, ms · 6 end, ms · 7 voucher id
--       8 group · 9 number of holders in the staging hash, 0: they follow here · then a user id and an order id for each holder
-- Answers: LOADED · REFUSED (a higher claim is there) · STAGE_LOST (the staging hash is not what this rebuild put there)
--          error ARGUMENT: nothing was read or written
-- Writes: stock, holders, sale hash; a missing stream with its group, and then the sale hashes of the lane's other sales, and all places, go away;
--         so does a key of another type in any of these places
-- Repeat safety: the same load again writes the same, as long as nobody was admitted; nobody is, before open.lua

for i = 1, 9 do
  if not ARGV[i] or (i ~= 8 and not string.find(ARGV[i], '^%d+$')) then return redis.error_reply('ARGUMENT load, number ' .. i) end
end
local staged = tonumber(ARGV[9])
if #ARGV % 2 ~= 1 or (staged > 0 and #ARGV > 9) or (ARGV[4] ~= '0' and ARGV[4] ~= '1') then
  return redis.error_reply('ARGUMENT load takes nine values, then pairs')
end
for i = 10, #ARGV do
  if not string.find(ARGV[i], '^[1-9]%d*$') then return redis.error_reply('ARGUMENT load, holder ' .. i) end
end
-- What SQL's own books say. A load that breaks it would only shut the gate again, without a reason to read.
if tonumber(ARGV[2]) + math.max(staged, (#ARGV - 9) / 2) ~= tonumber(ARGV[3]) then
  return redis.error_reply('ARGUMENT load: units left and holders do not make the total')
end

-- A key of another type holds nothing of ours, and as long as it is there every script fails on it.
for i, kind in ipairs({'hash', 'string', 'hash', 'hash', 'stream', 'set', 'hash'}) do
  local is = redis.call('TYPE', KEYS[i]).ok
  if is ~= 'none' and is ~= kind then redis.call('DEL', KEYS[i]) end
end

local claim = redis.call('HGET', KEYS[1], 'claim')
if claim and (tonumber(claim) or 0) > tonumber(ARGV[1]) then return 'REFUSED' end
if staged > 0 and (redis.call('HGET', KEYS[4], 'claim') ~= ARGV[1] or redis.call('HLEN', KEYS[4]) ~= staged + 1) then
  return 'STAGE_LOST'
end

if redis.call('EXISTS', KEYS[5]) == 0 then
  -- The entries of all sales of this lane went with the stream: each has to be rebuilt before it may sell again.
  local prefix = string.sub(KEYS[1], 1, -(#ARGV[7] + 1))
  for _, other in ipairs(redis.call('SMEMBERS', KEYS[6])) do
    if other ~= ARGV[7] then redis.call('DEL', prefix .. other) end
  end
  redis.call('DEL', KEYS[7])
  redis.call('XGROUP', 'CREATE', KEYS[5], ARGV[8], '0', 'MKSTREAM')
end

redis.call('DEL', KEYS[3])
if staged > 0 then
  redis.call('HDEL', KEYS[4], 'claim')
  redis.call('RENAME', KEYS[4], KEYS[3])
  redis.call('PERSIST', KEYS[3])
else
  redis.call('DEL', KEYS[4])
end
for from = 10, #ARGV, 2000 do redis.call('HSET', KEYS[3], unpack(ARGV, from, math.min(from + 1999, #ARGV))) end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'closed', 'epoch', ARGV[1], 'claim', ARGV[1], 'total', ARGV[3], 'paused', ARGV[4],
  'begin', ARGV[5], 'end', ARGV[6], 'run_id', string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'))
redis.call('PERSIST', KEYS[1])
redis.call('SADD', KEYS[6], ARGV[7])
return 'LOADED'
