-- Purpose: remembers who was told no, one bit for each user, so that a person who clicks a hundred times is one person.
-- KEYS: 1 sale hash · 2 bits of the people turned away
-- ARGV: 1 how long the bits outlive the sale, ms · then a bit number for each person, below 2^27
-- Answers: NOTED · GONE (the sale hash is missing; nothing is made)
--          error ARGUMENT: nothing was read or written
-- Writes: the bits, which go away by themselves
-- Repeat safety: for ever; a bit that is set stays set

if #ARGV < 2 then return redis.error_reply('ARGUMENT turned_away takes a time, then bits') end
for i = 1, #ARGV do
  if not string.find(ARGV[i], '^%d+$') or (i > 1 and tonumber(ARGV[i]) >= 134217728) then
    return redis.error_reply('ARGUMENT turned_away takes a time, then bits')
  end
end

local past = redis.call('HGET', KEYS[1], 'end')
if not past then return 'GONE' end
for i = 2, #ARGV do redis.call('SETBIT', KEYS[2], ARGV[i], 1) end
redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', tonumber(past) + tonumber(ARGV[1])))
return 'NOTED'
