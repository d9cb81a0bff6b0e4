#!lua name=steersman_VERSION
-- The tuple space inside the server. One name is one family of keys, all under BASE = prefix{name}:
--   :m        what the name uses (hash): n last number, q signatures, x indexes, w blocked clients, l leases used,
--             e time to live used, b bound, f deliveries before the dead letter, since first put, a alarm given
--   :t        number -> entry (hash); :q:SIG and :i:SHAPE:VALUES hold the numbers that may be taken, in order (zset)
--   :l :e     number -> end of lease, end of life, ms (zset); :d :y number -> deliveries, history; :k keys put once
--   :w :g:..  ticket -> blocked taker, tickets by what they wait for; :o tickets in order; :ws shapes waited for;
--   :p        blocked putters
--   :s:ID     the last answer to a session, so that a repeated request is answered and not done again
--   :v:..     chunks of large fields; :z messages moved aside
-- A signature is '.' and one letter a field; a shape is a signature with capitals where the value is fixed and * for any.

local FIRST = 4503599627370496        -- 2^52: what comes back is in front of everything, in its old order
local REMEMBER_MS = 600000            -- an answer is kept as long as a client may take to ask for it again
local FETCH_MS = 600000               -- the chunks of a tuple that is gone are kept for who took or read it
local PUSH_BYTES = 1048576            -- above this a hand-over is fetched: subscribers have an output limit
local SWEEP = 1000                    -- leases and lives ended in one call
local ASIDE = 1000                    -- damaged messages kept
local LATE_MS = 1000                  -- a watcher that has not come back by then is taken for dead
local CHUNKS = 4096                   -- of one field; a hostile count must not hold the server up

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

local function chunks(base, entry, act)
  local blobs, arity = string.byte(entry, 1, 2)
  if #entry < 10 + 5 * arity + 16 * blobs then return end
  for b = 1, blobs do
    local at = 11 + 5 * arity + 16 * (b - 1)
    local blob, count = string.sub(entry, at, at + 11), struct.unpack('>I4', entry, at + 12)
    for i = 0, math.min(count, CHUNKS) - 1 do act(base .. ':v:' .. blob .. ':' .. i) end
  end
end

local function keep_chunks(base, entry)
  if string.byte(entry, 1) ~= 0 then chunks(base, entry, function(key) redis.call('PERSIST', key) end) end
end

local function drop_chunks(base, entry)
  if string.byte(entry, 1) ~= 0 then chunks(base, entry, function(key) redis.call('PEXPIRE', key, FETCH_MS) end) end
end

local function index(name, entry, sig, act)
  if not name.indexes then return end
  for shape in string.gmatch(name.indexes, '%S+') do
    if string.lower(shape) == sig then
      local value = values(entry, shape)
      if value then act(name.base .. ':i:' .. shape .. ':' .. value) end
    end
  end
end

local function enqueue(name, number, sig, entry, score)
  redis.call('ZADD', name.base .. ':q:' .. sig, score, number)
  if not listed(name.sigs, sig) then
    name.sigs = (name.sigs or ' ') .. sig .. ' '
    redis.call('HSET', name.base .. ':m', 'q', name.sigs)
  end
  index(name, entry, sig, function(key) redis.call('ZADD', key, score, number) end)
end

local function dequeue(name, number, sig, entry)
  redis.call('ZREM', name.base .. ':q:' .. sig, number)
  index(name, entry, sig, function(key) redis.call('ZREM', key, number) end)
end

local function forget(name, number)
  redis.call('HDEL', name.base .. ':t', number)
  if name.leases then
    redis.call('ZREM', name.base .. ':l', number)
    redis.call('HDEL', name.base .. ':d', number)
    redis.call('HDEL', name.base .. ':y', number)
  end
  if name.lives then redis.call('ZREM', name.base .. ':e', number) end
end

local function channel(base, session) return base .. ':c:' .. session end

local function wake_putters(name)
  if not name.bound then return end
  local session = redis.call('LPOP', name.base .. ':p')
  while session and redis.call('SPUBLISH', channel(name.base, session), 'room') == 0 do
    session = redis.call('LPOP', name.base .. ':p')
  end
end

-- What matches a shape: one ordered set a signature, an index where a value is fixed (made on its first use).
local function narrow(shape, sig)
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

local function ensure_index(name, shape, sig)
  if listed(name.indexes, shape) then return end
  name.indexes = (name.indexes or ' ') .. shape .. ' '
  redis.call('HSET', name.base .. ':m', 'x', name.indexes)
  local at = 0
  repeat
    local page = redis.call('ZRANGE', name.base .. ':q:' .. sig, at, at + 999, 'WITHSCORES')
    for i = 1, #page, 2 do
      local entry = redis.call('HGET', name.base .. ':t', page[i])
      local value = entry and values(entry, shape)
      if value then redis.call('ZADD', name.base .. ':i:' .. shape .. ':' .. value, page[i + 1], page[i]) end
    end
    at = at + 1000
  until #page < 2000
end

local function sources(name, shape, value)
  if not string.find(shape, '[%*%u]') then return { name.base .. ':q:' .. shape } end
  local keys = {}
  for sig in string.gmatch(name.sigs or '', '%S+') do
    local exact = narrow(shape, sig)
    if exact and string.find(exact, '%u') then
      ensure_index(name, exact, sig)
      keys[#keys + 1] = name.base .. ':i:' .. exact .. ':' .. value
    elseif exact then
      keys[#keys + 1] = name.base .. ':q:' .. sig
    end
  end
  return keys
end

local function heads(keys, n)
  local last = n < 0 and -1 or n - 1
  if #keys == 1 then return redis.call('ZRANGE', keys[1], 0, last) end
  local all = {}
  for _, key in ipairs(keys) do
    local page = redis.call('ZRANGE', key, 0, last, 'WITHSCORES')
    for i = 1, #page, 2 do all[#all + 1] = { page[i], tonumber(page[i + 1]) } end
  end
  table.sort(all, function(a, b) return a[2] < b[2] end)
  local numbers = {}
  for i = 1, (n < 0 and #all or math.min(n, #all)) do numbers[i] = all[i][1] end
  return numbers
end

-- An answer: "SEQ number deliveries entry-length history-length ...\nentry history ...".
local function parcel(seq, head, body) return seq .. ' ' .. table.concat(head, ' ') .. '\n' .. table.concat(body) end

local function pack_item(name, head, body, number, entry, deliveries)
  local history = deliveries > 0 and redis.call('HGET', name.base .. ':y', number) or ''
  local n = #head
  head[n + 1], head[n + 2], head[n + 3], head[n + 4] = number, deliveries, #entry, #history
  n = #body
  body[n + 1], body[n + 2] = entry, history
end

-- A want: what a taker or reader asks for {session, seq, mode, n, lease, shape, value}.
local function collect(name, want)
  local head, body = {}, {}
  for _, number in ipairs(heads(sources(name, want.shape, want.value), want.n)) do
    local entry = redis.call('HGET', name.base .. ':t', number)
    if not entry then
      for _, key in ipairs(sources(name, want.shape, want.value)) do redis.call('ZREM', key, number) end
    elseif want.mode == 'read' then
      local deliveries = name.leases and redis.call('HGET', name.base .. ':d', number) or 0
      pack_item(name, head, body, number, entry, tonumber(deliveries))
    else
      dequeue(name, number, signature(entry), entry)
      local deliveries = 1
      if want.lease > 0 then
        deliveries = redis.call('HINCRBY', name.base .. ':d', number, 1)
        redis.call('ZADD', name.base .. ':l', milliseconds(name) + want.lease, number)
      elseif name.leases then
        deliveries = (redis.call('HGET', name.base .. ':d', number) or 0) + 1
      end
      pack_item(name, head, body, number, entry, deliveries)
      if want.lease == 0 then
        forget(name, number)
        drop_chunks(name.base, entry)
        wake_putters(name)
      end
    end
  end
  if #head == 0 then return nil end
  return parcel(want.seq, head, body)
end

local function remember(base, session, answer) redis.call('SET', base .. ':s:' .. session, answer, 'PX', REMEMBER_MS) end

local function remembered(base, session, seq)
  local answer = redis.call('GET', base .. ':s:' .. session)
  return answer and string.sub(answer, 1, #seq + 1) == seq .. ' ' and answer or nil
end

-- Blocked takers and readers, in order of arrival.
local function read_want(text)
  local want = {}
  want.session, want.seq, want.mode, want.n, want.lease, want.shape, want.value =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  want.n, want.lease = tonumber(want.n), tonumber(want.lease)
  return want
end

local function write_want(w)
  return table.concat({ w.session, w.seq, w.mode, w.n, w.lease, w.shape, w.value }, ' ')
end

local function group(name, shape, value) return name.base .. ':g:' .. shape .. ':' .. value end

local function add_waiter(name, want)
  local ticket = redis.call('HINCRBY', name.base .. ':m', 'ticket', 1)
  redis.call('HSET', name.base .. ':w', ticket, write_want(want))
  redis.call('ZADD', group(name, want.shape, want.value), ticket, ticket)
  redis.call('ZADD', name.base .. ':o', ticket, ticket)
  redis.call('HINCRBY', name.base .. ':ws', want.shape, 1)
  name.waiters = redis.call('HINCRBY', name.base .. ':m', 'w', 1)
  return ticket
end

local function remove_waiter(name, ticket)
  local text = redis.call('HGET', name.base .. ':w', ticket)
  if not text then return nil end
  local want = read_want(text)
  redis.call('HDEL', name.base .. ':w', ticket)
  redis.call('ZREM', group(name, want.shape, want.value), ticket)
  redis.call('ZREM', name.base .. ':o', ticket)
  if redis.call('HINCRBY', name.base .. ':ws', want.shape, -1) <= 0 then redis.call('HDEL', name.base .. ':ws', want.shape) end
  name.waiters = redis.call('HINCRBY', name.base .. ':m', 'w', -1)
  return want
end

local function alive(name, want)
  return redis.call('PUBSUB', 'SHARDNUMSUB', channel(name.base, want.session))[2] > 0
end

local function front(name, sig, entry)
  local best
  for _, shape in ipairs(redis.call('HKEYS', name.base .. ':ws')) do
    local value = narrow(shape, sig) and values(entry, shape)
    local ticket = value and tonumber(redis.call('ZRANGE', group(name, shape, value), 0, 0)[1])
    if ticket and (not best or ticket < best) then best = ticket end
  end
  return best
end

local function serve(name, ticket)
  local want = remove_waiter(name, ticket)
  if not alive(name, want) then return end
  local answer = collect(name, want)
  if not answer then return end
  remember(name.base, want.session, answer)
  if #answer > PUSH_BYTES then answer = want.seq .. ' ' end
  redis.call('SPUBLISH', channel(name.base, want.session), answer)
end

local function settle(name, number, sig, entry)
  while name.waiters and name.waiters > 0 and redis.call('ZSCORE', name.base .. ':q:' .. sig, number) do
    local ticket = front(name, sig, entry)
    if not ticket then return end
    serve(name, ticket)
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
  if not ((name.leases or name.lives) and name.waiters and name.waiters > 0) then return end
  local at = next_end(name)
  if not at then return end
  local told, until_ms = string.match(redis.call('HGET', name.base .. ':m', 'a') or '', '^(%d+) (%d+)$')
  local fresh = told and tonumber(until_ms) <= at and tonumber(until_ms) + LATE_MS > milliseconds(name)
  if fresh and redis.call('HEXISTS', name.base .. ':w', told) == 1 then return end
  local ticket = redis.call('ZREVRANGE', name.base .. ':o', 0, 0)[1]  -- the last in line waits longest for its turn
  while ticket do
    local want = read_want(redis.call('HGET', name.base .. ':w', ticket))
    local message = 'alarm ' .. want.seq .. ' ' .. math.max(0, at - milliseconds(name)) .. '\n'
    if redis.call('SPUBLISH', channel(name.base, want.session), message) > 0 then
      redis.call('HSET', name.base .. ':m', 'a', ticket .. ' ' .. at)
      return
    end
    remove_waiter(name, ticket)
    ticket = redis.call('ZREVRANGE', name.base .. ':o', 0, 0)[1]
  end
end

local open

local function add(name, sig, entry)
  local number = redis.call('HINCRBY', name.base .. ':m', 'n', 1)
  if number == 1 then redis.call('HSET', name.base .. ':m', 'since', milliseconds(name)) end
  redis.call('HSET', name.base .. ':t', number, entry)
  enqueue(name, number, sig, entry, number)
  return number
end

-- A lease that ended: back in front, or to the dead letters when it failed too often.
local function note_failure(name, number, reason)
  local history = redis.call('HGET', name.base .. ':y', number)
  local line = milliseconds(name) .. ' ' .. reason
  redis.call('HSET', name.base .. ':y', number, history and history .. '\n' .. line or line)
end

local function bury(name, number, entry, deliveries)
  local history = redis.call('HGET', name.base .. ':y', number)
  forget(name, number)
  local dead = open(name.base .. '!dead', name.now)
  if not dead.leases then
    redis.call('HSET', dead.base .. ':m', 'l', 1)
    dead.leases = true
  end
  local sig, buried = signature(entry), add(dead, signature(entry), entry)
  redis.call('HSET', dead.base .. ':d', buried, deliveries)
  redis.call('HSET', dead.base .. ':y', buried, history)
  settle(dead, buried, sig, entry)
end

local function give_back(name, number, reason)
  redis.call('ZREM', name.base .. ':l', number)
  local entry = redis.call('HGET', name.base .. ':t', number)
  if not entry then return end
  if reason == '' then
    redis.call('HINCRBY', name.base .. ':d', number, -1)
  else
    note_failure(name, number, reason)
    local deliveries = tonumber(redis.call('HGET', name.base .. ':d', number))
    if name.limit and deliveries >= name.limit then return bury(name, number, entry, deliveries) end
  end
  local sig = signature(entry)
  enqueue(name, number, sig, entry, number - FIRST)
  settle(name, number, sig, entry)
end

local function sweep(name)
  local now = milliseconds(name)
  if name.lives then
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', name.base .. ':e', '-inf', now, 'LIMIT', 0, SWEEP)) do
      local entry = redis.call('HGET', name.base .. ':t', number)
      if entry then
        dequeue(name, number, signature(entry), entry)
        drop_chunks(name.base, entry)
      end
      forget(name, number)
      wake_putters(name)
    end
  end
  if name.leases then
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', name.base .. ':l', '-inf', now, 'LIMIT', 0, SWEEP)) do
      give_back(name, number, 'lease ended')
    end
  end
end

open = function(base, now)
  local m = redis.call('HMGET', base .. ':m', 'q', 'x', 'w', 'l', 'e', 'b', 'f')
  local name = {
    base = base, now = tonumber(now), sigs = m[1], indexes = m[2], waiters = m[3] and tonumber(m[3]),
    leases = m[4], lives = m[5], bound = m[6] and tonumber(m[6]), limit = m[7] and tonumber(m[7]),
  }
  if name.leases or name.lives then sweep(name) end
  return name
end

local function use_leases(name)
  if not name.leases then
    redis.call('HSET', name.base .. ':m', 'l', 1)
    name.leases = true
  end
end

-- put: now session seq retry options [key signature entry]...; options: "ttl_ms wait once" or "".
local function store(name, sig, entry, ttl)
  local number = add(name, sig, entry)
  keep_chunks(name.base, entry)
  if ttl > 0 then
    if not name.lives then
      redis.call('HSET', name.base .. ':m', 'e', 1)
      name.lives = true
    end
    redis.call('ZADD', name.base .. ':e', milliseconds(name) + ttl, number)
  end
  if name.waiters and name.waiters > 0 then return { name, number, sig, entry } end
end

local function opened(keys, now)
  local names = {}
  for i, base in ipairs(keys) do names[i] = open(base, now) end
  return names
end

local function full(names, args, from)
  local more = {}
  for i = from, #args, 3 do
    local at = tonumber(args[i])
    more[at] = (more[at] or 0) + 1
  end
  for i, name in ipairs(names) do
    if name.bound and more[i] and redis.call('HLEN', name.base .. ':t') + more[i] > name.bound then return name end
  end
end

local function store_all(names, args, from, ttl)
  local fresh = {}
  for i = from, #args, 3 do
    fresh[#fresh + 1] = store(names[tonumber(args[i])], args[i + 1], args[i + 2], ttl)
  end
  for _, f in ipairs(fresh) do settle(f[1], f[2], f[3], f[4]) end
  for _, f in ipairs(fresh) do set_alarm(f[1]) end
end

local function put(keys, args)
  local session, seq = args[2], args[3]
  if args[4] == '1' then
    local answer = remembered(keys[1], session, seq)
    if answer then return answer end
  end
  local names, ttl, wait, once = opened(keys, args[1]), 0, '0', ''
  if args[5] ~= '' then
    ttl, wait, once = string.match(args[5], '^(%S+) (%S+) (.*)$')
    ttl = tonumber(ttl)
  end
  if once ~= '' and redis.call('HEXISTS', keys[1] .. ':k', once) == 1 then
    local answer = seq .. ' 0\n'
    remember(keys[1], session, answer)
    return answer
  end
  local crowded = full(names, args, 6)
  if crowded then
    redis.call('LREM', crowded.base .. ':p', 0, session)
    if wait == '1' then redis.call('RPUSH', crowded.base .. ':p', session) end
    return 'full ' .. crowded.bound .. '\n'
  end
  if once ~= '' then redis.call('HSET', keys[1] .. ':k', once, 1) end
  store_all(names, args, 6, ttl)
  local answer = seq .. ' 1\n'
  remember(keys[1], session, answer)
  return answer
end

-- take: now session seq retry mode n lease shape values wait ticket; answers a parcel, "wait ticket ms\n" or "none\n".
local function take(keys, args)
  local want = {
    session = args[2], seq = args[3], mode = args[5], n = tonumber(args[6]), lease = tonumber(args[7]),
    shape = args[8], value = args[9],
  }
  if args[4] == '1' then
    local answer = remembered(keys[1], want.session, want.seq)
    if answer then return answer end
  end
  local name = open(keys[1], args[1])
  if want.lease > 0 then use_leases(name) end
  local ticket = args[11]
  if ticket and ticket ~= '' then
    if not redis.call('HGET', name.base .. ':w', ticket) then
      local answer = remembered(keys[1], want.session, want.seq)  -- the sweep above may just have served us
      if answer then return answer end
      ticket = nil
    end
    redis.call('HDEL', name.base .. ':m', 'a')  -- it may be back because of its alarm
  else
    ticket = nil
  end
  local answer = not ticket and collect(name, want)
  if answer then
    if want.mode == 'take' then remember(name.base, want.session, answer) end
    set_alarm(name)
    return answer
  end
  if args[10] ~= '1' then return 'none\n' end
  ticket = ticket or add_waiter(name, want)
  set_alarm(name)
  return 'wait ' .. ticket .. '\n'
end

-- cancel: now session seq retry ticket undo; a waiter leaves the line; what it was handed is answered or put back.
local function put_back(name, answer)
  local head, at = string.match(answer, '^%S+ ([^\n]*)\n()')
  local words = {}
  for word in string.gmatch(head, '%S+') do words[#words + 1] = word end
  for i = 1, #words, 4 do
    local number, length, more = words[i], tonumber(words[i + 2]), tonumber(words[i + 3])
    local entry = string.sub(answer, at, at + length - 1)
    at = at + length + more
    if redis.call('HEXISTS', name.base .. ':t', number) == 1 then
      if redis.call('ZSCORE', name.base .. ':l', number) then give_back(name, number, '') end
    else
      redis.call('HSET', name.base .. ':t', number, entry)
      keep_chunks(name.base, entry)
      enqueue(name, number, signature(entry), entry, number - FIRST)
      settle(name, number, signature(entry), entry)
    end
  end
end

local function cancel(keys, args)
  local name = open(keys[1], args[1])
  local want = args[5] ~= '' and remove_waiter(name, args[5])
  local answer = not want and remembered(keys[1], args[2], args[3])
  if answer and args[6] == '1' then
    redis.call('DEL', keys[1] .. ':s:' .. args[2])
    put_back(name, answer)
    answer = nil
  end
  set_alarm(name)
  return answer or 'none\n'
end

-- Leases. end: now session seq retry how [key number deliveries]...; how: ack, renew MS, release REASON.
local function ours(name, number, deliveries)
  return redis.call('ZSCORE', name.base .. ':l', number) and redis.call('HGET', name.base .. ':d', number) == deliveries
end

local function acknowledge(name, number)
  local entry = redis.call('HGET', name.base .. ':t', number)
  forget(name, number)
  if entry then drop_chunks(name.base, entry) end
  wake_putters(name)
end

local function settle_lease(name, number, how, what)
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
      settle_lease(name, number, how, what)
    else
      late[#late + 1] = number
    end
  end
  for _, name in ipairs(names) do set_alarm(name) end
  local answer = args[3] .. ' ' .. table.concat(late, ' ') .. '\n'
  remember(keys[1], args[2], answer)
  return answer
end

-- commit: now session seq retry acks [key number deliveries]... [key signature entry]...: all or nothing.
local function commit(keys, args)
  if args[4] == '1' then
    local answer = remembered(keys[1], args[2], args[3])
    if answer then return answer end
  end
  local names, last = opened(keys, args[1]), 5 + 3 * tonumber(args[5])
  for i = 6, last, 3 do
    if not ours(names[tonumber(args[i])], args[i + 1], args[i + 2]) then return 'late ' .. args[i] .. '\n' end
  end
  local crowded = full(names, args, last + 1)
  if crowded then return 'full ' .. crowded.bound .. '\n' end
  for i = 6, last, 3 do acknowledge(names[tonumber(args[i])], args[i + 1]) end
  store_all(names, args, last + 1, 0)
  local answer = args[3] .. ' 1\n'
  remember(keys[1], args[2], answer)
  return answer
end

-- count: now shape values
local function count(keys, args)
  local name, total = open(keys[1], args[1]), 0
  for _, key in ipairs(sources(name, args[2], args[3])) do total = total + redis.call('ZCARD', key) end
  return total
end

local function clear(keys, args)
  local name, cleared = open(keys[1], args[1]), 0
  for _, number in ipairs(redis.call('HKEYS', name.base .. ':t')) do
    local entry = redis.call('HGET', name.base .. ':t', number)
    dequeue(name, number, signature(entry), entry)
    drop_chunks(name.base, entry)
    forget(name, number)
    cleared = cleared + 1
  end
  redis.call('DEL', name.base .. ':k', name.base .. ':z')
  while name.bound and redis.call('LLEN', name.base .. ':p') > 0 do wake_putters(name) end
  return cleared
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
  local name = open(keys[1], args[1])
  while redis.call('LLEN', name.base .. ':p') > 0 do
    name.bound = true
    wake_putters(name)
  end
  return 1
end

-- aside: now number; a damaged message leaves its name and is kept raw
local function aside(keys, args)
  local name, number, entry = open(keys[1], args[1]), args[2], args[3]
  local stored = redis.call('HGET', name.base .. ':t', number)
  if stored then
    for sig in string.gmatch(name.sigs or '', '%S+') do dequeue(name, number, sig, stored) end
    use_leases(name)
    forget(name, number)
  end
  redis.call('RPUSH', name.base .. ':z', stored or entry)
  redis.call('LTRIM', name.base .. ':z', -ASIDE, -1)
  wake_putters(name)
  return 1
end

-- survey: now; what statistics() shows of a name
local function survey(keys, args)
  local name = open(keys[1], args[1])
  local base, ready, oldest = name.base, 0, nil
  for sig in string.gmatch(name.sigs or '', '%S+') do
    local key = base .. ':q:' .. sig
    ready = ready + redis.call('ZCARD', key)
    local number = redis.call('ZRANGE', key, 0, 0)[1]
    local entry = number and redis.call('HGET', base .. ':t', number)
    local at = entry and #entry >= 10 and struct.unpack('>d', entry, 3)
    if at and (not oldest or at < oldest) then oldest = at end
  end
  local m = redis.call('HMGET', base .. ':m', 'n', 'w', 'since', 'b')
  return {
    tonumber(m[1] or 0), redis.call('HLEN', base .. ':t'), ready, redis.call('ZCARD', base .. ':l'), tonumber(m[2] or 0),
    redis.call('LLEN', base .. ':p'), redis.call('HLEN', base .. '!dead:t'), redis.call('LLEN', base .. ':z'), tonumber(m[4] or 0),
    tostring(milliseconds(name)), tostring(oldest or 0), tostring(m[3] or 0),
  }
end

local function register(word, callback, ...)
  redis.register_function({ function_name = word .. '_VERSION', callback = callback, flags = { ... } })
end

register('put', put)
register('commit', commit)
register('take', take, 'allow-oom')
register('cancel', cancel, 'allow-oom')
register('lease', lease, 'allow-oom')
register('count', count, 'allow-oom')
register('clear', clear, 'allow-oom')
register('configure', configure, 'allow-oom')
register('aside', aside, 'allow-oom')
register('survey', survey, 'allow-oom')
