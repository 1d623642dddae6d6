-- Purpose: gives entries back to the group that it counts as delivered and that nobody holds. Otherwise they stay for ever: a read
--          of new entries passes them by, a claim does not see them. A log that was torn inside a transaction makes them: Redis
--          keeps the first half in the file, runs none of it, and at its next start runs it after all.
-- KEYS: 1 stream of the lane
-- ARGV: 1 group · 2 name of the consumer that they are put down to; it looks idle, so that the next claim takes them over
-- Answers: how many of the first thousand were given back; 0 too when stream or group is missing
--          error ARGUMENT: nothing was read or written
-- Writes: XCLAIM, only of entries that nobody holds
-- Repeat safety: for ever

if #ARGV ~= 2 or ARGV[1] == '' or ARGV[2] == '' then return redis.error_reply('ARGUMENT strays takes a group and a name') end

local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err then return 0 end
local delivered
for _, fields in ipairs(groups) do
  local one = {}
  for k = 1, #fields, 2 do one[fields[k]] = fields[k + 1] end
  if one.name == ARGV[1] then delivered = one['last-delivered-id'] end
end
if not delivered then return 0 end

local given = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', delivered, 'COUNT', 1000)) do
  local id = entry[1]
  if #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1) == 0 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', 3600000, 'FORCE', 'JUSTID')
    given = given + 1
  end
end
return given
