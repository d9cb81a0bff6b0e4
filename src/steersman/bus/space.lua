#!lua name=steersman_VERSION
-- The tuple space inside the server. One name is one family of keys, all under BASE = prefix{name}:
--   :m        what the name uses (hash): n last number, q signatures, x indexes, w shapes waited for, l leases used,
--             e time to live used, b bound, f deliveries before the dead letter, since first put, a alarm given,
--             tap until when puts are published, ticket last ticket, s:ID the last answer to a session: a repeated
--             request is answered and not done again
--   :t        number -> entry (hash); :q:SIG and :i:SHAPE:VALUES hold the numbers that may be taken, in order (zset)
--   :l :e     number -> end of lease, end of life, ms (zset); :d :y number -> deliveries, history; :k keys put once
--   :o        blocked takers and readers in order of arrival; :g:SHAPE:VALUES the same, by what they wait for (zset)
--   :p        blocked putters; :s sessions seen; :v:.. chunks of large fields; :z messages moved aside
-- A signature is '.' and one letter a field; a shape has capitals where the value is
-- fixed and * for any type; '.~' is the shape of all tuples of a name.
-- A call into Redis costs a microsecond or two, more than anything else here: so few calls, and only for what is used.

local FIRST = 4503599627370496        -- 2^52: what comes back is in front of everything, in its old order
local FETCH_MS = 600000               -- the chunks of a tuple that is gone are kept for who took or read it
local PUSH_BYTES = 1048576            -- above this a hand-over is fetched: subscribers have an output limit
local HISTORY = 8192                  -- bytes of failures kept of a tuple: above it the oldest go
local SWEEP = 1000                    -- leases and lives ended in one call
local ASIDE = 1000                    -- damaged messages kept
local LATE_MS = 1000                  -- a watcher that has not come back by then is taken for dead
local CHUNKS = 4096                   -- of one field; a hostile count must not hold the server up
local PAGE = 1000                     -- arguments of one call: Lua's stack is finite
local GENERATION = 1048576            -- puts after which the answers to sessions not heard of since are forgotten

local open, bury

local function milliseconds(name)
  if not name.now then
    local t = redis.call('TIME')
    name.now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return name.now
end

local function listed(words, word)
  return words and string.find(words, ' ' .. word .. ' ', 1, true)
end

local function in_pages(command, key, words)
  for at = 1, #words, PAGE do
    redis.call(command, key, unpack(words, at, math.min(at + PAGE - 1, #words)))
  end
end

local function set(name, ...) redis.call('HSET', name.base .. ':m', ...) end

-- ENTRY: blobs u8, arity u8, put at ms f64, signature letters, field lengths u32, blob names 16 bytes each, fields.
local function signature(entry)
  local arity = string.byte(entry, 2) or 0
  return '.' .. string.lower(string.sub(entry, 11, 10 + arity))
end

local function values(entry, shape)
  local blobs, arity = string.byte(entry, 1, 2)
  local at = arity and 11 + 5 * arity + 16 * blobs
  if not arity or arity ~= #shape - 1 or #entry + 1 < at then return nil end
  local fixed = {}
  for i = 1, arity do
    local length = struct.unpack('>I4', entry, 7 + arity + 4 * i)
    if string.find(shape, '^%u', i + 1) then fixed[#fixed + 1] = string.sub(entry, at, at + length - 1) end
    at = at + length
  end
  local value = table.concat(fixed)
  return #value > 40 and redis.sha1hex(value) or value
end

local function chunks(base, entry, ...)
  local blobs, arity = string.byte(entry, 1, 2)
  if not arity or blobs == 0 or #entry < 10 + 5 * arity + 16 * blobs then return end
  for b = 1, blobs do
    local at = 11 + 5 * arity + 16 * (b - 1)
    local blob, count = string.sub(entry, at, at + 11), struct.unpack('>I4', entry, at + 12)
    for i = 0, math.min(count, CHUNKS) - 1 do
      local key = base .. ':v:' .. blob .. ':' .. i
      if ... then redis.call('PEXPIRE', key, ...) else redis.call('PERSIST', key) end
    end
  end
end

-- The indexes that hold an entry.
local function indexes(name, sig, entry)
  local keys = {}
  for shape in string.gmatch(name.indexes or '', '%S+') do
    local value = string.lower(shape) == sig and values(entry, shape)
    if value then keys[#keys + 1] = name.base .. ':i:' .. shape .. ':' .. value end
  end
  return keys
end

local function enqueue(name, number, sig, entry, score)
  redis.call('ZADD', name.base .. ':q:' .. sig, score, number)
  if name.indexes then
    for _, key in ipairs(indexes(name, sig, entry)) do redis.call('ZADD', key, score, number) end
  end
end

-- From its queue and all indexes but the one that it was popped from.
local function dequeue(name, number, sig, entry, from)
  local queue = name.base .. ':q:' .. sig
  if queue ~= from then redis.call('ZREM', queue, number) end
  if name.indexes then
    for _, key in ipairs(indexes(name, sig, entry)) do
      if key ~= from then redis.call('ZREM', key, number) end
    end
  end
end

local function wake_putters(name, room)
  local woken = 0
  while woken < room do
    local session = redis.call('LPOP', name.base .. ':p')
    if not session then return end
    woken = woken + redis.call('SPUBLISH', name.base .. ':c:' .. session, 'room')
  end
end

local function forget(name, numbers)
  in_pages('HDEL', name.base .. ':t', numbers)
  if name.leases then
    in_pages('ZREM', name.base .. ':l', numbers)
    in_pages('HDEL', name.base .. ':d', numbers)
    in_pages('HDEL', name.base .. ':y', numbers)
  end
  if name.lives then in_pages('ZREM', name.base .. ':e', numbers) end
  if name.bound then wake_putters(name, #numbers) end
end

-- What matches a shape: one ordered set a signature, an index where a value is fixed (made on its first use).
local function narrow(shape, sig)
  if shape == sig or shape == '.~' then return sig end
  if #shape ~= #sig then return nil end
  local exact = {}
  for i = 1, #shape do
    local want, have = string.sub(shape, i, i), string.sub(sig, i, i)
    if want == '*' then want = have end
    if string.lower(want) ~= have then return nil end
    exact[i] = want
  end
  return table.concat(exact)
end

local function make_index(name, shape, sig)
  if listed(name.indexes, shape) then return end
  name.indexes = (name.indexes or ' ') .. shape .. ' '
  set(name, 'x', name.indexes)
  local at = 0
  repeat
    local page = redis.call('ZRANGE', name.base .. ':q:' .. sig, at, at + PAGE - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      local entry = redis.call('HGET', name.base .. ':t', page[i])
      local value = entry and values(entry, shape)
      if value then redis.call('ZADD', name.base .. ':i:' .. shape .. ':' .. value, page[i + 1], page[i]) end
    end
    at = at + PAGE
  until #page < 2 * PAGE
end

local function sources(name, shape, value)
  if not string.find(shape, '[%*%u~]') then return { name.base .. ':q:' .. shape } end
  local keys = {}
  for sig in string.gmatch(name.sigs or '', '%S+') do
    local exact = narrow(shape, sig)
    if exact and string.find(exact, '%u') then
      make_index(name, exact, sig)
      keys[#keys + 1] = name.base .. ':i:' .. exact .. ':' .. value
    elseif exact then
      keys[#keys + 1] = name.base .. ':q:' .. sig
    end
  end
  return keys
end

local function heads(keys, n, order)
  local last = n < 0 and -1 or n - 1
  if #keys == 1 then return redis.call(order, keys[1], 0, last) end
  local all = {}
  for _, key in ipairs(keys) do
    local page = redis.call(order, key, 0, last, 'WITHSCORES')
    for i = 1, #page, 2 do all[#all + 1] = { page[i], tonumber(page[i + 1]) } end
  end
  local newest = order == 'ZREVRANGE'
  table.sort(all, function(a, b) if newest then return a[2] > b[2] end return a[2] < b[2] end)
  local numbers = {}
  for i = 1, (n < 0 and #all or math.min(n, #all)) do numbers[i] = all[i][1] end
  return numbers
end

-- The numbers that a want takes or reads, and the set that they left with that, if they did.
local function pick(name, want)
  local keys = sources(name, want.shape, want.value)
  if want.mode ~= 'take' or #keys ~= 1 then
    return heads(keys, want.n, want.mode == 'last' and 'ZREVRANGE' or 'ZRANGE')
  end
  local popped, numbers = redis.call('ZPOPMIN', keys[1], want.n < 0 and 4294967296 or want.n), {}
  for i = 1, #popped, 2 do numbers[#numbers + 1] = popped[i] end
  return numbers, keys[1]
end

local function entries(name, numbers)
  local found = {}
  for at = 1, #numbers, PAGE do
    local page = redis.call('HMGET', name.base .. ':t', unpack(numbers, at, math.min(at + PAGE - 1, #numbers)))
    for i = 1, #page do found[at + i - 1] = page[i] end
  end
  return found
end

-- An answer: "SEQ number deliveries entry-length history-length ...\nentry history ...".
local function pack_item(name, parcel, number, entry, deliveries)
  local history = name.leases and redis.call('HGET', name.base .. ':y', number) or ''
  parcel.head[#parcel.head + 1] = number .. ' ' .. deliveries .. ' ' .. #entry .. ' ' .. #history
  parcel.body[#parcel.body + 1] = entry
  if history ~= '' then parcel.body[#parcel.body + 1] = history end
end

local function answer_of(seq, parcel)
  return seq .. ' ' .. table.concat(parcel.head, ' ') .. '\n' .. table.concat(parcel.body)
end

local function deliveries_of(name, number)
  return name.leases and tonumber(redis.call('HGET', name.base .. ':d', number) or 0) or 0
end

local function use_leases(name)
  if not name.leases then
    set(name, 'l', 1)
    name.leases = '1'
  end
end

local function grant(name, number, lease)
  redis.call('ZADD', name.base .. ':l', milliseconds(name) + lease, number)
  return redis.call('HINCRBY', name.base .. ':d', number, 1)
end

-- A want: what a taker or reader asks for {session, seq, mode, n, lease, shape, value}.
local function collect(name, want)
  local numbers, from = pick(name, want)
  if #numbers == 0 then return nil end
  local parcel, gone, keys = { head = {}, body = {} }, {}, nil
  for i, entry in ipairs(entries(name, numbers)) do
    local number = numbers[i]
    if not entry then
      keys = keys or sources(name, want.shape, want.value)
      for _, key in ipairs(keys) do redis.call('ZREM', key, number) end
    elseif want.mode ~= 'take' then
      pack_item(name, parcel, number, entry, deliveries_of(name, number))
    else
      dequeue(name, number, signature(entry), entry, from)
      if want.lease > 0 then
        pack_item(name, parcel, number, entry, grant(name, number, want.lease))
      else
        pack_item(name, parcel, number, entry, deliveries_of(name, number) + 1)
        gone[#gone + 1] = number
        chunks(name.base, entry, FETCH_MS)
      end
    end
  end
  if #gone > 0 then forget(name, gone) end
  return #parcel.head > 0 and answer_of(want.seq, parcel) or nil
end

local function remember(name, session, answer) set(name, 's:' .. session, answer) end

local function remembered(base, session, seq)
  local answer = redis.call('HGET', base .. ':m', 's:' .. session)
  return answer and string.sub(answer, 1, #seq + 1) == seq .. ' ' and answer or nil
end

-- Blocked takers and readers. A ticket is "NUMBER session seq mode n lease"; :o holds "NUMBER session seq".
local function group(name, shape, value) return name.base .. ':g:' .. shape .. ':' .. value end

local function place(number, want) return number .. ' ' .. want.session .. ' ' .. want.seq end

local function ticket(number, want)
  return place(number, want) .. ' ' .. want.mode .. ' ' .. want.n .. ' ' .. want.lease
end

local function join_line(name, want)
  local number = redis.call('HINCRBY', name.base .. ':m', 'ticket', 1)
  redis.call('ZADD', group(name, want.shape, want.value), number, ticket(number, want))
  redis.call('ZADD', name.base .. ':o', number, place(number, want))
  if not listed(name.waits, want.shape) then
    name.waits = (name.waits or ' ') .. want.shape .. ' '
    set(name, 'w', name.waits)
  end
  return number
end

local function leave_line(name, number, want)
  redis.call('ZREM', group(name, want.shape, want.value), ticket(number, want))
  return redis.call('ZREM', name.base .. ':o', place(number, want)) == 1
end

-- The first in line that an entry matches: ticket, its set.
local function front(name, sig, entry)
  local best, first, from
  for shape in string.gmatch(name.waits, '%S+') do
    local value = narrow(shape, sig) and (shape == sig and '' or values(entry, shape))
    if value then
      local key = group(name, shape, value)
      local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
      if head[1] and (not best or tonumber(head[2]) < best) then best, first, from = tonumber(head[2]), head[1], key end
    end
  end
  return first, from
end

local function read_ticket(text)
  local number, session, seq, mode, n, lease = string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return { number = number, session = session, seq = seq, mode = mode, n = n, lease = tonumber(lease) }
end

-- Hand an entry that is in no queue to one client. Its memory keeps the answer in case the note is lost on the way.
local function hand(name, want, number, entry)
  local parcel, before = { head = {}, body = {} }, deliveries_of(name, number)
  pack_item(name, parcel, number, entry, want.mode == 'take' and before + 1 or before)
  local answer = answer_of(want.seq, parcel)
  local note = #answer > PUSH_BYTES and want.seq .. ' ' or answer
  if redis.call('SPUBLISH', name.base .. ':c:' .. want.session, note) == 0 then return false end
  remember(name, want.session, answer)
  return true
end

-- Offer an entry that is in no queue to those who wait: 'gone' for good, 'held' under a lease, or nil. Who does not
-- listen any more is dropped from the line.
local function offer(name, number, sig, entry)
  if not name.waits then return nil end
  local text, from = front(name, sig, entry)
  while text do
    local want = read_ticket(text)
    redis.call('ZREM', from, text)
    redis.call('ZREM', name.base .. ':o', place(want.number, want))
    if hand(name, want, number, entry) and want.mode == 'take' then
      if want.lease == 0 then return 'gone' end
      use_leases(name)
      grant(name, number, want.lease)
      return 'held'
    end
    text, from = front(name, sig, entry)
  end
end

-- One blocked client watches the next end of a lease or a life for all of them: no herd wakes when it ends.
local function next_end(name)
  local first
  for _, part in ipairs({ ':l', ':e' }) do
    local head = redis.call('ZRANGE', name.base .. part, 0, 0, 'WITHSCORES')
    if head[2] and (not first or tonumber(head[2]) < first) then first = tonumber(head[2]) end
  end
  return first
end

local function set_alarm(name)
  if not (name.waits and (name.leases or name.lives)) then return end
  local last = redis.call('ZREVRANGE', name.base .. ':o', 0, 0)[1]  -- the last in line waits longest for its turn
  local at = last and next_end(name)
  if not at then return end
  local told, until_ms = string.match(redis.call('HGET', name.base .. ':m', 'a') or '', '^(.*) (%d+)$')
  local fresh = told and tonumber(until_ms) <= at and tonumber(until_ms) + LATE_MS > milliseconds(name)
  if fresh and redis.call('ZSCORE', name.base .. ':o', told) then return end
  while last do
    local session, seq = string.match(last, '^%S+ (%S+) (%S+)$')
    local note = 'alarm ' .. seq .. ' ' .. math.max(0, at - milliseconds(name)) .. '\n'
    if redis.call('SPUBLISH', name.base .. ':c:' .. session, note) > 0 then return set(name, 'a', last .. ' ' .. at) end
    redis.call('ZREM', name.base .. ':o', last)
    last = redis.call('ZREVRANGE', name.base .. ':o', 0, 0)[1]
  end
end

local function know_signature(name, sig)
  if listed(name.sigs, sig) then return end
  name.sigs = (name.sigs or ' ') .. sig .. ' '
  set(name, 'q', name.sigs)
end

-- A lease that ended: to who waits, else back in front; or to the dead letters when it failed too often.
local function note_failure(name, number, reason)
  local history = redis.call('HGET', name.base .. ':y', number)
  local line = milliseconds(name) .. ' ' .. reason
  if history and #history > HISTORY then history = string.match(history, '\n(.*)$') end
  redis.call('HSET', name.base .. ':y', number, history and history .. '\n' .. line or line)
end

local function back_in_front(name, number, entry)
  local sig = signature(entry)
  local handed = offer(name, number, sig, entry)
  if handed == 'gone' then
    forget(name, { number })
    chunks(name.base, entry, FETCH_MS)
  elseif not handed then
    know_signature(name, sig)
    enqueue(name, number, sig, entry, number - FIRST)
  end
end

local function give_back(name, number, reason)
  redis.call('ZREM', name.base .. ':l', number)
  local entry = redis.call('HGET', name.base .. ':t', number)
  if not entry then return end
  if reason == '' then
    redis.call('HINCRBY', name.base .. ':d', number, -1)
  else
    note_failure(name, number, reason)
    if name.limit and deliveries_of(name, number) >= name.limit then return bury(name, number, entry) end
  end
  back_in_front(name, number, entry)
end

bury = function(name, number, entry)
  local dead, deliveries = open(name.base .. '!dead', name.now), deliveries_of(name, number)
  local history, sig = redis.call('HGET', name.base .. ':y', number), signature(entry)
  forget(name, { number })
  use_leases(dead)
  local buried = redis.call('HINCRBY', dead.base .. ':m', 'n', 1)
  redis.call('HSET', dead.base .. ':t', buried, entry)
  redis.call('HSET', dead.base .. ':d', buried, deliveries)
  redis.call('HSET', dead.base .. ':y', buried, history)
  local handed = offer(dead, buried, sig, entry)
  if handed == 'gone' then return forget(dead, { buried }) end
  know_signature(dead, sig)
  if not handed then enqueue(dead, buried, sig, entry, buried) end
end

local function ended(name, part)
  return redis.call('ZRANGEBYSCORE', name.base .. part, '-inf', milliseconds(name), 'LIMIT', 0, SWEEP)
end

local function sweep(name)
  local lives, leases = name.lives and ended(name, ':e') or {}, name.leases and ended(name, ':l') or {}
  for _, number in ipairs(lives) do
    local entry = redis.call('HGET', name.base .. ':t', number)
    if entry then
      dequeue(name, number, signature(entry), entry)
      chunks(name.base, entry, FETCH_MS)
    end
    forget(name, { number })
  end
  for _, number in ipairs(leases) do give_back(name, number, 'lease ended') end
  if #lives + #leases > 0 then set_alarm(name) end
end

open = function(base, now)
  local m = redis.call('HMGET', base .. ':m', 'n', 'q', 'x', 'w', 'l', 'e', 'b', 'f', 'tap')
  local name = {
    base = base, now = tonumber(now), n = m[1] and tonumber(m[1]) or 0, sigs = m[2], indexes = m[3], waits = m[4],
    leases = m[5], lives = m[6], bound = m[7] and tonumber(m[7]), limit = m[8] and tonumber(m[8]),
    tap = m[9] and tonumber(m[9]),
  }
  if name.leases or name.lives then sweep(name) end
  return name
end

local function opened(keys, now)
  local names = {}
  for i, base in ipairs(keys) do names[i] = open(base, now) end
  return names
end

-- Now and then the answers to sessions that asked nothing since the last time are dropped.
local function forget_sessions(name, count)
  if math.floor(name.n / GENERATION) == math.floor((name.n - count) / GENERATION) then return end
  local seen = name.base .. ':s'
  for _, field in ipairs(redis.call('HKEYS', name.base .. ':m')) do
    if string.sub(field, 1, 2) == 's:' then
      local seq = string.match(redis.call('HGET', name.base .. ':m', field), '^%S+')
      if redis.call('HGET', seen, field) == seq then
        redis.call('HDEL', name.base .. ':m', field)
        redis.call('HDEL', seen, field)
      else
        redis.call('HSET', seen, field, seq)
      end
    end
  end
end

-- put: now session seq retry options [key signature entry]...; options: "ttl_ms wait once" or "".
local function counted(args, from, sign, more)
  for i = from, #args, 3 do
    local at = tonumber(args[i])
    more[at] = (more[at] or 0) + sign
  end
  return more
end

local function crowded(names, more)
  for i, name in ipairs(names) do
    if name.bound and more[i] and more[i] > 0 and redis.call('HLEN', name.base .. ':t') + more[i] > name.bound then
      return name
    end
  end
end

-- Numbers are given out, and the answer is kept, before anything is stored: an error leaves no number used twice.
local function number_off(names, args, from, session, answer)
  for at, count in pairs(counted(args, from, 1, {})) do
    local name = names[at]
    name.stored = name.n
    name.n = name.n + count
    forget_sessions(name, count)
    if at > 1 then
      set(name, 'n', name.n)
    elseif name.stored == 0 then
      set(name, 'n', name.n, 's:' .. session, answer, 'since', milliseconds(name))
    else
      set(name, 'n', name.n, 's:' .. session, answer)
    end
  end
end

local function store(name, number, sig, entry, ttl)
  local handed = offer(name, number, sig, entry)
  chunks(name.base, entry, handed == 'gone' and FETCH_MS or nil)
  if name.tap and name.tap > milliseconds(name) and #entry < PUSH_BYTES then
    redis.call('SPUBLISH', name.base .. ':tap', number .. '\n' .. entry)
  end
  if handed == 'gone' then return end
  redis.call('HSET', name.base .. ':t', number, entry)
  if ttl > 0 then
    if not name.lives then
      set(name, 'e', 1)
      name.lives = '1'
    end
    redis.call('ZADD', name.base .. ':e', milliseconds(name) + ttl, number)
  end
  know_signature(name, sig)
  if not handed then enqueue(name, number, sig, entry, number) end
end

-- Many plain tuples of one name: two calls for a page of them.
local function store_plain(name, args, from)
  local rows, queues = {}, {}
  for i = from, #args, 3 do
    local number, sig = name.stored + 1, args[i + 1]
    name.stored = number
    rows[#rows + 1], rows[#rows + 2] = number, args[i + 2]
    local queue = queues[sig] or {}
    queue[#queue + 1], queue[#queue + 2] = number, number
    queues[sig] = queue
    if string.byte(args[i + 2], 1) ~= 0 then chunks(name.base, args[i + 2]) end
  end
  in_pages('HSET', name.base .. ':t', rows)
  for sig, queue in pairs(queues) do
    know_signature(name, sig)
    in_pages('ZADD', name.base .. ':q:' .. sig, queue)
  end
end

local function store_all(names, args, from, ttl)
  local only = names[1]
  if #names == 1 and ttl == 0 and not (only.waits or only.indexes or only.tap) then
    return store_plain(only, args, from)
  end
  for i = from, #args, 3 do
    local name = names[tonumber(args[i])]
    name.stored = name.stored + 1
    store(name, name.stored, args[i + 1], args[i + 2], ttl)
  end
  for _, name in ipairs(names) do set_alarm(name) end
end

-- The common case, in as few steps as there can be: one tuple, nobody waits, nothing is indexed or bounded.
local function put_one(name, session, answer, sig, entry)
  local number = name.n + 1
  if number % GENERATION == 0 then forget_sessions(name, GENERATION) end
  redis.call('HSET', name.base .. ':m', 'n', number, 's:' .. session, answer)
  redis.call('HSET', name.base .. ':t', number, entry)
  redis.call('ZADD', name.base .. ':q:' .. sig, number, number)
  return answer
end

local function put(keys, args)
  local session, seq = args[2], args[3]
  if args[4] == '1' then
    local answer = remembered(keys[1], session, seq)
    if answer then return answer end
  end
  local names, ttl, wait, once = opened(keys, args[1]), 0, '0', ''
  local only, sig, entry = names[1], args[7], args[8]
  local plain = #args == 8 and args[5] == '' and not (only.waits or only.indexes or only.bound or only.tap)
  if plain and listed(only.sigs, sig) and string.byte(entry, 1) == 0 then
    return put_one(only, session, seq .. ' 1\n', sig, entry)
  end
  if args[5] ~= '' then
    ttl, wait, once = string.match(args[5], '^(%S+) (%S+) (.*)$')
    ttl = tonumber(ttl)
  end
  if once ~= '' and redis.call('HEXISTS', keys[1] .. ':k', once) == 1 then
    remember(names[1], session, seq .. ' 0\n')
    return seq .. ' 0\n'
  end
  local full = crowded(names, counted(args, 6, 1, {}))
  if full then
    redis.call('LREM', full.base .. ':p', 0, session)
    if wait == '1' then redis.call('RPUSH', full.base .. ':p', session) end
    return 'full ' .. full.bound .. '\n'
  end
  local answer = seq .. ' 1\n'
  number_off(names, args, 6, session, answer)
  if once ~= '' then redis.call('HSET', keys[1] .. ':k', once, 1) end
  store_all(names, args, 6, ttl)
  return answer
end

-- take: now session seq retry mode n lease shape values wait ticket; answers a parcel, "wait ticket\n" or "none\n".
local function wanted(args)
  return {
    session = args[2], seq = args[3], mode = args[5], n = tonumber(args[6]), lease = tonumber(args[7]),
    shape = args[8], value = args[9],
  }
end

-- Asked again from the line: still in it, or served in between, or dropped from it because we did not listen.
local function asked_again(name, want, number)
  if redis.call('ZSCORE', name.base .. ':o', place(number, want)) then
    redis.call('HDEL', name.base .. ':m', 'a')  -- it may be back because of its alarm
    return 'wait ' .. number .. '\n'
  end
  leave_line(name, number, want)
  return remembered(name.base, want.session, want.seq)
end

-- The common case: one tuple by types alone, for good, of a name without leases or indexes.
local function take_one(name, want)
  local number = redis.call('ZPOPMIN', name.base .. ':q:' .. want.shape, 1)[1]
  local entry = number and redis.call('HGET', name.base .. ':t', number)
  if not entry then return nil end
  redis.call('HDEL', name.base .. ':t', number)
  if string.byte(entry, 1) ~= 0 then chunks(name.base, entry, FETCH_MS) end
  local answer = want.seq .. ' ' .. number .. ' 1 ' .. #entry .. ' 0\n' .. entry
  redis.call('HSET', name.base .. ':m', 's:' .. want.session, answer)
  return answer
end

local function plain(name, want)
  return want.n == 1 and want.lease == 0 and want.mode == 'take' and not string.find(want.shape, '[%*%u~]')
    and not (name.leases or name.lives or name.indexes or name.bound)
end

local function take(keys, args)
  local want = wanted(args)
  if args[4] == '1' then
    local answer = remembered(keys[1], want.session, want.seq)
    if answer then return answer end
  end
  local name, number = open(keys[1], args[1]), args[11] or ''
  if want.lease > 0 then use_leases(name) end
  local answer = number ~= '' and asked_again(name, want, number) or nil
  if not answer and plain(name, want) then
    answer = take_one(name, want)
    if answer then return answer end
  end
  if not answer then
    answer = collect(name, want)
    if answer and want.mode == 'take' then remember(name, want.session, answer) end
  end
  if not answer then answer = args[10] == '1' and 'wait ' .. join_line(name, want) .. '\n' or 'none\n' end
  set_alarm(name)
  return answer
end

-- received: session; a large answer arrived, so its copies may go, Lua's own too: Redis counts them as memory used
local function received(keys, args)
  redis.call('HDEL', keys[1] .. ':m', 's:' .. args[1])
  collectgarbage()
  return 1
end

-- cancel: as take, with ticket undo at the end; a waiter leaves the line; what it was handed is answered or put back.
local function put_back(name, answer)
  local head, at = string.match(answer, '^%S+ ([^\n]*)\n()')
  for number, _, length, more in string.gmatch(head, '(%S+) (%S+) (%S+) (%S+)') do
    local entry = string.sub(answer, at, at + length - 1)
    at = at + length + more
    if redis.call('ZSCORE', name.base .. ':l', number) then
      give_back(name, number, '')
    elseif redis.call('HSETNX', name.base .. ':t', number, entry) == 1 then
      chunks(name.base, entry)
      back_in_front(name, number, entry)
    end
  end
end

-- Interrupted before it heard its place in line: it is looked for.
local function find_place(name, want)
  for _, text in ipairs(redis.call('ZRANGE', name.base .. ':o', 0, -1)) do
    local number = string.match(text, '^(%S+) ' .. want.session .. ' ' .. want.seq .. '$')
    if number then return number end
  end
end

local function cancel(keys, args)
  local name, want = open(keys[1], args[1]), wanted(args)
  local number = args[10] ~= '' and args[10] or find_place(name, want)
  local waiting = number and leave_line(name, number, want)
  local answer = not waiting and remembered(name.base, want.session, want.seq)
  if answer and args[11] == '1' then
    redis.call('HDEL', name.base .. ':m', 's:' .. want.session)
    if want.mode == 'take' then put_back(name, answer) end
    answer = nil
  end
  set_alarm(name)
  return answer or 'none\n'
end

-- lease: now session seq retry how [key number deliveries]...; how: "ack", "renew MS", "release REASON".
local function ours(name, number, deliveries)
  return redis.call('ZSCORE', name.base .. ':l', number) and redis.call('HGET', name.base .. ':d', number) == deliveries
end

local function acknowledge(name, number)
  local entry = redis.call('HGET', name.base .. ':t', number)
  forget(name, { number })
  if entry then chunks(name.base, entry, FETCH_MS) end
end

local function settle(name, number, how, what)
  if how == 'ack' then
    acknowledge(name, number)
  elseif how == 'renew' then
    redis.call('ZADD', name.base .. ':l', milliseconds(name) + tonumber(what), number)
  else
    give_back(name, number, what)
  end
end

local function lease(keys, args)
  if args[4] == '1' then
    local answer = remembered(keys[1], args[2], args[3])
    if answer then return answer end
  end
  local names, late = opened(keys, args[1]), {}
  local how, what = string.match(args[5], '^(%S+) ?(.*)$')
  for i = 6, #args, 3 do
    local name, number, deliveries = names[tonumber(args[i])], args[i + 1], args[i + 2]
    if ours(name, number, deliveries) then
      settle(name, number, how, what)
    else
      late[#late + 1] = number
    end
  end
  for _, name in ipairs(names) do set_alarm(name) end
  local answer = args[3] .. ' ' .. table.concat(late, ' ') .. '\n'
  remember(names[1], args[2], answer)
  return answer
end

-- commit: now session seq retry acks [key number deliveries]... [key signature entry]...: all or nothing.
local function commit(keys, args)
  if args[4] == '1' then
    local answer = remembered(keys[1], args[2], args[3])
    if answer then return answer end
  end
  local names, last, more = opened(keys, args[1]), 5 + 3 * tonumber(args[5]), {}
  for i = 6, last, 3 do
    local at = tonumber(args[i])
    if not ours(names[at], args[i + 1], args[i + 2]) then return 'late ' .. at .. '\n' end
    more[at] = (more[at] or 0) - 1
  end
  local full = crowded(names, counted(args, last + 1, 1, more))
  if full then return 'full ' .. full.bound .. '\n' end
  local answer = args[3] .. ' 1\n'
  remember(names[1], args[2], answer)
  for i = 6, last, 3 do acknowledge(names[tonumber(args[i])], args[i + 1]) end
  number_off(names, args, last + 1, args[2], answer)
  store_all(names, args, last + 1, 0)
  return answer
end

-- count: now shape values
local function count(keys, args)
  local name, total = open(keys[1], args[1]), 0
  for _, key in ipairs(sources(name, args[2], args[3])) do total = total + redis.call('ZCARD', key) end
  return total
end

-- clear: now; answers how many are gone
local function clear(keys, args)
  local name = open(keys[1], args[1])
  local numbers = redis.call('HKEYS', name.base .. ':t')
  for i, entry in ipairs(entries(name, numbers)) do
    if entry then
      dequeue(name, numbers[i], signature(entry), entry)
      chunks(name.base, entry, FETCH_MS)
    end
  end
  forget(name, numbers)
  redis.call('DEL', name.base .. ':k', name.base .. ':z')
  return #numbers
end

-- configure: now bound limit ("" leaves as it is, 0 removes)
local function configure(keys, args)
  for i, field in ipairs({ 'b', 'f' }) do
    if args[i + 1] == '0' then
      redis.call('HDEL', keys[1] .. ':m', field)
    elseif args[i + 1] ~= '' then
      redis.call('HSET', keys[1] .. ':m', field, args[i + 1])
    end
  end
  wake_putters(open(keys[1], args[1]), redis.call('LLEN', keys[1] .. ':p'))
  return 1
end

-- tap: now ms; for so long each put is also published, for who follows the name
local function tap(keys, args)
  local name = open(keys[1], args[1])
  return set(name, 'tap', milliseconds(name) + tonumber(args[2])) or 1
end

-- aside: now number entry; a damaged message leaves its name and is kept raw
local function aside(keys, args)
  local name, number, entry = open(keys[1], args[1]), args[2], args[3]
  local stored = redis.call('HGET', name.base .. ':t', number)
  if stored then
    for sig in string.gmatch(name.sigs or '', '%S+') do dequeue(name, number, sig, stored) end
    use_leases(name)
    forget(name, { number })
  end
  redis.call('RPUSH', name.base .. ':z', stored or entry)
  redis.call('LTRIM', name.base .. ':z', -ASIDE, -1)
  return 1
end

-- survey: now; what statistics() shows of a name
local function oldest_of(name)
  local oldest, ready = nil, 0
  for sig in string.gmatch(name.sigs or '', '%S+') do
    local key = name.base .. ':q:' .. sig
    ready = ready + redis.call('ZCARD', key)
    local number = redis.call('ZRANGE', key, 0, 0)[1]
    local entry = number and redis.call('HGET', name.base .. ':t', number)
    local at = entry and #entry >= 10 and struct.unpack('>d', entry, 3)
    if at and (not oldest or at < oldest) then oldest = at end
  end
  return oldest or 0, ready
end

local function survey(keys, args)
  local name = open(keys[1], args[1])
  local base, oldest, ready = name.base, oldest_of(name)
  return {
    name.n, redis.call('HLEN', base .. ':t'), ready, redis.call('ZCARD', base .. ':l'),
    redis.call('ZCARD', base .. ':o'), redis.call('LLEN', base .. ':p'), redis.call('HLEN', base .. '!dead:t'),
    redis.call('LLEN', base .. ':z'), name.bound or 0, tostring(milliseconds(name)), tostring(oldest),
    redis.call('HGET', base .. ':m', 'since') or '0',
  }
end

local function register(word, callback, ...)
  redis.register_function({ function_name = word .. '_VERSION', callback = callback, flags = { ... } })
end

register('put', put)
register('commit', commit)
register('take', take, 'allow-oom')
register('received', received, 'allow-oom')
register('cancel', cancel, 'allow-oom')
register('lease', lease, 'allow-oom')
register('count', count, 'allow-oom')
register('clear', clear, 'allow-oom')
register('configure', configure, 'allow-oom')
register('tap', tap, 'allow-oom')
register('aside', aside, 'allow-oom')
register('survey', survey, 'allow-oom')
