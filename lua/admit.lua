-- Purpose: admits a batch of buyers of one voucher, in one atomic step and by the time of the server itself.
-- KEYS: 1 sale hash · 2 stock · 3 holders · 4 stream of the lane · 5 places of the lane
-- ARGV: 1 epoch as SQL has it · 2 backlog limit · 3 voucher id · then a user id and an order id for each buyer
-- Answers: {'NOT_READY', the hash's epoch or '', what does not fit: sale epoch run_id closed stock stream sum}: nothing was taken
--          {'READY', position before the first OK, text of a refused write or '', one answer for each buyer}; an answer is
--          OK, PAUSED, NOT_BEGUN, ENDED, SOLD_OUT, BUSY, or the digits of the order that this buyer already holds
--          error ARGUMENT: nothing was read or written
-- Writes: one stream entry, one holder, one unit and one place for each OK; nothing at all when nobody comes in, so that refusals
--         never wait for the disk
-- Repeat safety: a buyer who was admitted hears the id that he holds; everybody else is judged anew

-- Every argument first: a script has no rollback. One scan over the joined text costs less than a match for each.
local joined = ' ' .. table.concat(ARGV, ' ')
if #KEYS ~= 5 or #ARGV < 5 or #ARGV % 2 ~= 1 or string.find(joined, '[^ %d]') or string.find(joined, '  ', 1, true)
  or string.find(joined, ' 0', 1, true) or string.sub(joined, -1) == ' ' then
  return redis.error_reply('ARGUMENT admit takes whole numbers above zero: epoch, limit, voucher, then pairs')
end
local epoch, limit, voucher = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- Ready? Anything that does not fit says nothing about the stock, so nothing else may be said.
local sale = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'run_id', 'begin', 'end', 'total', 'paused')
local first, past, total = tonumber(sale[4] or ''), tonumber(sale[5] or ''), tonumber(sale[6] or '')
if not (sale[1] and sale[2] and sale[3] and first and past and total and sale[7]) then
  return {'NOT_READY', sale[2] or '', 'sale'}
end
if sale[2] ~= epoch then return {'NOT_READY', sale[2], 'epoch'} end
if sale[3] ~= string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') then return {'NOT_READY', sale[2], 'run_id'} end
local stock = tonumber(string.match(redis.call('GET', KEYS[2]) or '', '^%-?%d+$') or '')
if not stock then return {'NOT_READY', sale[2], 'stock'} end
if redis.call('EXISTS', KEYS[4]) == 0 then return {'NOT_READY', sale[2], 'stream'} end
-- Admission, release and load all keep this sum, so a lost or hand-made key shows here and never as "sold out".
if stock + redis.call('HLEN', KEYS[3]) ~= total then return {'NOT_READY', sale[2], 'sum'} end
if sale[1] ~= 'open' then return {'NOT_READY', sale[2], 'closed'} end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local shut
if sale[7] ~= '0' then shut = 'PAUSED' elseif now < first then shut = 'NOT_BEGUN' elseif now >= past then shut = 'ENDED' end

local users = {}
for i = 4, #ARGV, 2 do users[#users + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[3], unpack(users))

local answers, came, taken, places, trouble = {'READY', 0, ''}, {}, {}, {}, nil
local backlog
for i, user in ipairs(users) do
  local id = ARGV[2 + 2 * i + 1]
  local answer = held[i] or came[user]
  if not answer then
    answer = shut or (stock <= 0 and 'SOLD_OUT')
    if not answer and not backlog then
      -- Only when somebody may come in: the length, and how many entries the stream has ever taken.
      local info = redis.call('XINFO', 'STREAM', KEYS[4])
      for k = 1, #info, 2 do
        if info[k] == 'length' then backlog = info[k + 1] elseif info[k] == 'entries-added' then answers[2] = info[k + 1] end
      end
    end
    if not answer and (trouble or backlog >= limit) then answer = 'BUSY' end
    if not answer then
      -- The write that can fail goes first. A full memory or disk refuses it here, before anything of this buyer was taken.
      local entry = redis.pcall('XADD', KEYS[4], 'NOMKSTREAM', '*',
        'id', id, 'userId', user, 'voucherId', voucher, 'epoch', epoch, 'admittedAt', string.format('%.0f', now))
      if type(entry) == 'string' then
        came[user], answer, stock, backlog = id, 'OK', stock - 1, backlog + 1
        taken[#taken + 1], taken[#taken + 2] = user, id
        places[#taken - 1], places[#taken] = id, string.format('%.0f', answers[2] + #taken / 2)
      else
        trouble, answer = entry and entry.err or 'no stream', 'BUSY'
        answers[3] = trouble
      end
    end
  end
  answers[3 + i] = answer
end

-- Entries, then holders, then stock: whatever stops in between leaves a buyer with a place too many, never a unit sold twice.
if #taken > 0 then
  redis.call('HSET', KEYS[3], unpack(taken))
  redis.call('DECRBY', KEYS[2], #taken / 2)
  -- Last, for nothing is decided by it: "how many before me" for a buyer who has lost his ticket.
  redis.call('HSET', KEYS[5], unpack(places))
end
return answers
