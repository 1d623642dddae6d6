-- Purpose: acknowledges and removes entries whose outcome is committed, a whole batch in one step.
-- KEYS: 1 stream of the lane · 2 places of the lane
-- ARGV: 1 group · then a stream id and an order id for each entry; '' as order id: an unreadable entry, taken by its stream id
-- Answers: {removed, gone, foreign}: how many were removed, had gone before, or carry another order and were left alone
--          error ARGUMENT: nothing was read or written
-- Writes: XACK of the removed and the gone, XDEL of the removed, and their places go away
-- Repeat safety: for ever; an entry that is gone is only acknowledged

if #ARGV < 3 or #ARGV % 2 ~= 1 then return redis.error_reply('ARGUMENT settle takes a group, then pairs') end
for i = 2, #ARGV, 2 do
  if not string.find(ARGV[i], '^%d+%-%d+$') or not string.find(ARGV[i + 1], '^%d*$') then
    return redis.error_reply('ARGUMENT settle takes pairs of a stream id and an order id')
  end
end

-- A server that came back without its tail may hand out an old stream id for another order: compare before removing.
local done, remove, places, foreign = {}, {}, {}, 0
for i = 2, #ARGV, 2 do
  local found = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
  if not found then
    done[#done + 1] = ARGV[i]
    if ARGV[i + 1] ~= '' then places[#places + 1] = ARGV[i + 1] end
  else
    local same = ARGV[i + 1] == ''
    local fields = found[2]
    local id
    for k = 1, #fields, 2 do
      if fields[k] == 'id' then id = fields[k + 1] break end
    end
    same = same or id == ARGV[i + 1]
    if same then
      if id then places[#places + 1] = id end
      done[#done + 1], remove[#remove + 1] = ARGV[i], ARGV[i]
    else
      foreign = foreign + 1
    end
  end
end
-- Both in one step: a stop between them would leave an entry that is never delivered again.
for from = 1, #done, 1000 do redis.call('XACK', KEYS[1], ARGV[1], unpack(done, from, math.min(from + 999, #done))) end
for from = 1, #remove, 1000 do redis.call('XDEL', KEYS[1], unpack(remove, from, math.min(from + 999, #remove))) end
for from = 1, #places, 1000 do redis.call('HDEL', KEYS[2], unpack(places, from, math.min(from + 999, #places))) end
return {#remove, #done - #remove, foreign}
