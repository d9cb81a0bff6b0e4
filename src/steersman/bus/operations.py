"""Tuples and templates -> requests to the functions in space.lua: every operation of the space, on a connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from steersman.bus import codec, entries
from steersman.bus.connection import Connection
from steersman.bus.entries import Blob, BlobField, Entry
from steersman.bus.errors import (
    BusError,
    DamagedMessage,
    LeaseExpired,
    NameFull,
    OutOfMemory,
    ServerRefused,
    ServersDiffer,
)
from steersman.bus.keys import Keys
from steersman.bus.parcels import Unreadable, decoded, is_parcel, parcel, tuple_of
from steersman.bus.statistics import Statistics
from steersman.bus.tuples import Template, Tuple

Clock = Callable[[], float]
ALL = -1
HEARTBEAT_S = 15.0  # a blocked client asks again this often, in case a note was lost with its connection
ROOM_S = 2.0  # the same for a blocked put
ORPHAN_MS = 3_600_000  # chunks whose tuple is not put within an hour belonged to a producer that died

log = logging.getLogger("steersman.bus")


@dataclass(frozen=True)
class Want:
    """What a take or a read asks for."""

    template: Template
    mode: bytes = b"take"
    n: int = 1
    lease_s: float | None = None
    timeout_s: float | None = None


@dataclass(frozen=True)
class Operations:
    """The operations of one space.

    Args:
        clock: seconds since 1970 for leases and lives; None takes the server's own clock, the same for all clients.
    """

    keys: Keys
    clock: Clock | None = None

    def _now(self) -> bytes:
        return b"" if self.clock is None else b"%d" % round(self.clock() * 1000)

    def encode(self, name: str, fields: tuple[Any, ...]) -> Entry:
        """Raises: NotPlain."""
        return entries.encode(name, fields, (self.clock or time.time)() * 1000)

    # -- put

    def put(
        self,
        connection: Connection,
        items: Sequence[Entry],
        ttl_s: float | None = None,
        once: str = "",
        timeout_s: float | None = None,
    ) -> bool:
        """Put all as one; True, or False when the key `once` was put before.

        Raises: NameFull: the bound of a name is reached, still after timeout_s (None waits forever, 0 refuses).
        """
        bases, triples = self._triples(items)
        self._upload(connection, items)
        number, deadline, wait = connection.next_number(), _deadline(timeout_s), False
        while True:
            channel = bases[0] + b":c:" + connection.id if wait else b""
            args = [self._now(), connection.id, number, b"", _options(ttl_s, wait, once), *triples]
            answer = connection.call("put", bases, args, channel)
            if not answer.startswith(b"full"):
                return bool(answer.endswith(b" 1\n"))
            bound, left = int(answer[5:]), _left(deadline)
            if len(items) > bound or left == 0.0:
                raise NameFull(items[0].name, bound)
            if wait:
                connection.listen(_sooner(left, ROOM_S))
            wait = True

    def _triples(self, items: Sequence[Entry]) -> tuple[list[bytes], list[Any]]:
        if len(items) == 1:
            return [self.keys.base(items[0].name)], [b"1", items[0].signature, items[0].data]
        places: dict[str, bytes] = {}
        triples: list[Any] = []
        for item in items:
            place = places.setdefault(item.name, b"%d" % (len(places) + 1))
            triples += (place, item.signature, item.data)
        return [self.keys.base(name) for name in places], triples

    def _upload(self, connection: Connection, items: Sequence[Entry]) -> None:
        for item in items:
            for blob in item.blobs:
                for i in range(blob.chunks):
                    connection.command(b"SET", self._chunk(item.name, blob, i), bytes(blob.chunk(i)), b"PX", ORPHAN_MS)

    def _chunk(self, name: str, blob: Blob | BlobField, number: int) -> bytes:
        return self.keys.base(name) + b":v:" + blob.name + b":%d" % number

    # -- take, read

    def take(self, connection: Connection, want: Want) -> list[Tuple]:
        """Take or read up to n; an empty list when there is none within timeout_s.

        Raises: DamagedMessage: all that matched was no tuple of ours; it was moved aside.
        """
        name, base = want.template.name, self.keys.base(want.template.name)
        number, deadline = connection.next_number(), _deadline(want.timeout_s)
        try:
            answer = self._asked(connection, base, want, number)
            if answer.startswith(b"wait"):
                answer = self._awaited(connection, base, want, number, deadline, answer)
            if answer == b"none\n":
                return []
            if len(answer) > codec.CHUNK_BYTES and want.mode == b"take":
                connection.call("received", [base], [connection.id])
            return self._opened(connection, name, answer, want.lease_s)
        except Unreadable as damaged:
            raise self._aside(connection, name, damaged) from None
        except BusError:
            raise
        except BaseException:  # Ctrl-C, say: leave the line, and put back what was handed over meanwhile
            ticket, connection.ticket = connection.ticket, b""
            connection.close()
            connection.call("cancel", [base], [*self._words(connection, want, number), ticket, b"1"])
            raise

    def _words(self, connection: Connection, want: Want, number: bytes, again: bytes = b"") -> list[bytes]:
        lease_ms = 0 if want.lease_s is None else max(1, round(want.lease_s * 1000))
        template = want.template
        what = (want.mode, b"%d" % want.n, b"%d" % lease_ms, template.shape, template.values)
        return [self._now(), connection.id, number, again, *what]

    def _asked(self, connection: Connection, base: bytes, want: Want, number: bytes, ticket: bytes = b"") -> bytes:
        wait, channel = (b"", b"") if want.timeout_s == 0.0 else (b"1", base + b":c:" + connection.id)
        words = [*self._words(connection, want, number, b"1" if ticket else b""), wait, ticket]
        answer: bytes = connection.call("take", [base], words, channel)
        return answer

    def _awaited(
        self, connection: Connection, base: bytes, want: Want, number: bytes, deadline: float | None, answer: bytes
    ) -> bytes:
        """In line: a note hands over; an alarm or a heartbeat asks again; at the deadline we leave the line."""
        while answer.startswith(b"wait"):
            connection.ticket, wake = answer.split()[1], time.monotonic() + HEARTBEAT_S
            note = _noted(connection, number, deadline, wake)
            if note is not None:
                answer = note
            elif _left(deadline) == 0.0:
                words = [*self._words(connection, want, number), connection.ticket, b""]
                answer = connection.call("cancel", [base], words)
            else:
                answer = self._asked(connection, base, want, number, connection.ticket)
        connection.ticket = b""
        return answer

    def _opened(self, connection: Connection, name: str, answer: bytes, lease_s: float | None) -> list[Tuple]:
        """Those that can be read; what cannot is moved aside. Raises: DamagedMessage: that was all."""
        tuples, errors = [], []
        for number, deliveries, data, history in parcel(answer):
            try:
                fields = decoded(number, data)
                for place, value in enumerate(fields):
                    if type(value) is BlobField:
                        fields[place] = self._fetched(connection, name, number, data, value)
            except Unreadable as damaged:
                errors.append(self._aside(connection, name, damaged))
                continue
            tuples.append(tuple_of(name, fields, [number, deliveries], lease_s, history))
        if errors and not tuples:
            raise errors[0]
        for error in errors:  # the others were taken with it, and would be lost
            log.warning("%s", error)
        return tuples

    def _aside(self, connection: Connection, name: str, damaged: Unreadable) -> DamagedMessage:
        connection.call("aside", [self.keys.base(name)], [self._now(), damaged.number, damaged.data])
        return DamagedMessage(name, int(damaged.number), damaged.reason)

    def _fetched(self, connection: Connection, name: str, number: bytes, data: bytes, blob: BlobField) -> Any:
        whole = bytearray()
        for i in range(blob.chunks):
            # GETRANGE, not GET: a chunk that is gone comes as b"", and never as None, which means no answer.
            chunk = connection.command(b"GETRANGE", self._chunk(name, blob, i), 0, -1)
            if not chunk:
                raise Unreadable(number, data, f"chunk {i} of {blob.chunks} of a field is missing")
            whole += chunk
        try:
            return codec.unpack_field(whole)
        except ValueError as broken:
            raise Unreadable(number, data, str(broken)) from None

    # -- leases

    def lease(self, connection: Connection, tuples: Sequence[Tuple], how: bytes) -> None:
        """Acknowledge (b"ack"), renew (b"renew MS") or release (b"release REASON") as one round trip.

        Raises: LeaseExpired: some are no longer ours; the others were done.
        """
        places = {name: b"%d" % (i + 1) for i, name in enumerate(dict.fromkeys(t.name for t in tuples))}
        bases = [self.keys.base(name) for name in places]
        triples = [word for t in tuples for word in (places[t.name], b"%d" % t.number, b"%d" % t.deliveries)]
        args = [self._now(), connection.id, connection.next_number(), b"", how, *triples]
        late = {int(number) for number in connection.call("lease", bases, args).split()[1:]}
        for t in tuples:
            if t.number in late:
                raise LeaseExpired(t.name, t.lease_s or 0.0)

    def commit(self, connection: Connection, taken: Sequence[Tuple], items: Sequence[Entry]) -> None:
        """Acknowledge all and put all, or nothing.

        Raises: LeaseExpired: one that was taken is no longer ours. NameFull. ServersDiffer.
        """
        names = list(dict.fromkeys([t.name for t in taken] + [item.name for item in items]))
        place = {name: b"%d" % (i + 1) for i, name in enumerate(names)}
        acks = [word for t in taken for word in (place[t.name], b"%d" % t.number, b"%d" % t.deliveries)]
        puts = [word for item in items for word in (place[item.name], item.signature, item.data)]
        self._upload(connection, items)
        args = [self._now(), connection.id, connection.next_number(), b"", b"%d" % len(taken), *acks, *puts]
        answer = connection.call("commit", [self.keys.base(name) for name in names], args)
        if answer.startswith(b"late"):
            raise LeaseExpired(names[int(answer[5:]) - 1], taken[0].lease_s or 0.0)
        if answer.startswith(b"full"):
            raise NameFull(", ".join(names), int(answer[5:]))

    # -- the rest

    def count(self, connection: Connection, template: Template) -> int:
        """How many match and are free."""
        args = [self._now(), template.shape, template.values]
        return int(connection.call("count", [self.keys.base(template.name)], args))

    def clear(self, connection: Connection, name: str) -> int:
        """Remove all of a name; how many."""
        return int(connection.call("clear", [self.keys.base(name)], [self._now()]))

    def configure(self, connection: Connection, name: str, bound: int | None, deliveries: int | None) -> None:
        """Set limits; None leaves one as it is, 0 removes it."""
        limits = [b"" if number is None else b"%d" % number for number in (bound, deliveries)]
        connection.call("configure", [self.keys.base(name)], [self._now(), *limits])

    def damaged(self, connection: Connection, name: str) -> list[bytes]:
        """The raw messages that were moved aside."""
        return list(connection.command(b"LRANGE", self.keys.base(name) + b":z", 0, -1))

    def names(self, connection: Connection) -> list[str]:
        """The names this server holds."""
        return [self.keys.name(key.removesuffix(b":m")) for key in connection.scan(self.keys.pattern(b":m"))]

    def erase(self, connection: Connection) -> None:
        """Delete every key of the space."""
        for key in connection.scan(self.keys.pattern()):
            connection.command(b"DEL", key)

    def follow(self, connection: Connection, name: str, seconds: float) -> Tuple | None:
        """The next tuple put under a name while we listen, None after some seconds without one. Takes nothing."""
        base = self.keys.base(name)
        if not connection.notes:
            args = [self._now(), b"%d" % round(3000 * max(seconds, 1.0))]
            connection.call("tap", [base], args, base + b":tap")
        if (note := connection.listen(seconds)) is None:
            return None
        number, _, data = note.partition(b"\n")
        return tuple_of(name, decoded(number, data), [number, b"0"], None, b"")

    def survey(self, connection: Connection, name: str) -> Statistics:
        """What statistics() shows of a name."""
        return Statistics.of_survey(connection.call("survey", [self.keys.base(name)], [self._now()]))


def held(tuples: Tuple | Iterable[Tuple]) -> list[Tuple]:
    """One tuple or several -> a list of tuples (a Tuple is itself iterable)."""
    return [tuples] if isinstance(tuples, Tuple) else list(tuples)


def explained(name: str, refused: ServerRefused) -> BusError:
    """A server's refusal as the error it means for a name."""
    if refused.message.startswith("OOM"):
        return OutOfMemory(name, refused.address)
    if refused.message.startswith("CROSSSLOT"):
        return ServersDiffer((name, "the others of this request"))
    return refused


def _noted(connection: Connection, number: bytes, deadline: float | None, wake: float) -> bytes | None:
    """Wait for what is handed over to this request; None when it is time to ask again, or to give up."""
    while True:
        seconds = max(0.0, _sooner(_left(deadline), wake - time.monotonic()))
        note = connection.listen(seconds)
        if note is None:
            if not connection.connected or seconds == 0.0:
                return None
        elif note.startswith(number + b" "):
            return note if is_parcel(note) else None  # too large to be pushed, or forged: ask the server
        elif note.startswith(b"alarm " + number + b" "):
            wake = min(wake, time.monotonic() + float(note.split()[2]) / 1000)


def _options(ttl_s: float | None, wait: bool, once: str) -> bytes:
    if ttl_s is None and not wait and not once:
        return b""
    return b"%d %d %s" % (round((ttl_s or 0.0) * 1000), wait, once.encode())


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _sooner(a: float | None, b: float) -> float:
    return b if a is None else min(a, b)
