-- Purpose: removes the names of consumers that are long gone and hold nothing, and places whose entries somebody deleted by hand.
-- KEYS: 1 stream of the lane · 2 places of the lane
-- ARGV: 1 group · 2 idle time in ms from which a consumer counts as gone
-- Answers: how many were removed; 0 too when stream or group is missing
--          error ARGUMENT: nothing was read or written
-- Writes: XGROUP DELCONSUMER, only where nothing is unacknowledged: it would drop such entries for good. Places, when the stream
--         is there and empty: a settled entry takes its place along, so what is left then belongs to nobody
-- Repeat safety: for ever

if #ARGV ~= 2 or not string.find(ARGV[2], '^%d+$') then return redis.error_reply('ARGUMENT drop_consumers takes a group and a time') end

if redis.call('TYPE', KEYS[1]).ok == 'stream' and redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
local list = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if list.err then return 0 end
local removed = 0
for _, fields in ipairs(list) do
  local one = {}
  for k = 1, #fields, 2 do one[fields[k]] = fields[k + 1] end
  if one.pending == 0 and one.idle >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], one.name)
    removed = removed + 1
  end
end
return removed
