"""Tuples and templates -> programs: every operation of the space, as requests to the functions in space.lua."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from steersman.bus import codec, entries
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
from steersman.bus.parcels import Damaged, decoded, is_parcel, parcel, tuple_of
from steersman.bus.programs import Operation, Program, Session, call, command, listen, scan
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
        self, items: Sequence[Entry], ttl_s: float | None = None, once: str = "", timeout_s: float | None = None
    ) -> Operation[bool]:
        """Put all as one; True, or False when the key `once` was put before.

        Raises: NameFull: the bound of a name is reached, still after timeout_s (None waits forever, 0 refuses).
        """
        bases, triples = self._triples(items)
        name = items[0].name

        def program(session: Session) -> Program[bool]:
            yield from self._upload(session, items)
            number, deadline, wait = session.next_number(), _deadline(timeout_s), False
            while True:
                options = _options(ttl_s, wait, once)
                channel = bases[0] + b":c:" + session.id if wait else b""
                args = [self._now(), session.id, number, b"", options, *triples]
                answer = yield from call(session, "put", bases, args, channel)
                if not answer.startswith(b"full"):
                    return bool(answer.endswith(b" 1\n"))
                bound = int(answer[5:])
                left = _left(deadline)
                if len(items) > bound or left == 0.0:
                    raise NameFull(name, bound)
                if wait:
                    yield from listen(session, _sooner(left, ROOM_S))
                wait = True

        return program

    def _triples(self, items: Sequence[Entry]) -> tuple[list[bytes], list[Any]]:
        if len(items) == 1:
            return [self.keys.base(items[0].name)], [b"1", items[0].signature, items[0].data]
        places: dict[str, bytes] = {}
        triples: list[Any] = []
        for item in items:
            place = places.setdefault(item.name, b"%d" % (len(places) + 1))
            triples += (place, item.signature, item.data)
        return [self.keys.base(name) for name in places], triples

    def _upload(self, session: Session, items: Sequence[Entry]) -> Program[None]:
        for item in items:
            for blob in item.blobs:
                for i in range(blob.chunks):
                    words = (b"SET", self._chunk(item.name, blob, i), bytes(blob.chunk(i)), b"PX", ORPHAN_MS)
                    yield from command(session, *words)

    def _chunk(self, name: str, blob: Blob | BlobField, number: int) -> bytes:
        return self.keys.base(name) + b":v:" + blob.name + b":%d" % number

    # -- take, read

    def take(self, want: Want) -> Operation[list[Tuple]]:
        """Take or read up to n; an empty list when there is none within timeout_s.

        Raises: DamagedMessage: all that matched was no tuple of ours; it was moved aside.
        """
        template = want.template
        base = self.keys.base(template.name)

        def program(session: Session) -> Program[list[Tuple]]:
            number, deadline = session.next_number(), _deadline(want.timeout_s)
            try:
                answer = yield from self._asked(session, base, want, number)
                if answer.startswith(b"wait"):
                    answer = yield from self._awaited(session, base, want, number, deadline, answer)
                if answer == b"none\n":
                    return []
                if len(answer) > codec.CHUNK_BYTES and want.mode == b"take":
                    yield from call(session, "received", [base], [session.id])
                return (yield from self._opened(session, template.name, answer, want.lease_s))
            except Damaged as damaged:
                raise (yield from self._aside(session, template.name, damaged)) from None
            except (BusError, GeneratorExit):
                raise
            except BaseException:
                yield from self._undone(session, base, want, number)
                raise

        return program

    def _undone(self, session: Session, base: bytes, want: Want, number: bytes) -> Program[None]:
        """Interrupted (Ctrl-C, a cancelled task): leave the line, and put back what was handed over meanwhile."""
        session.connected, ticket, session.ticket = False, session.ticket, b""
        yield from call(session, "cancel", [base], [*self._words(session, want, number), ticket, b"1"])

    def _words(self, session: Session, want: Want, number: bytes, again: bytes = b"") -> list[bytes]:
        lease_ms = 0 if want.lease_s is None else max(1, round(want.lease_s * 1000))
        template = want.template
        what = (want.mode, b"%d" % want.n, b"%d" % lease_ms, template.shape, template.values)
        return [self._now(), session.id, number, again, *what]

    def _asked(self, session: Session, base: bytes, want: Want, number: bytes, ticket: bytes = b"") -> Program[bytes]:
        wait, channel = (b"", b"") if want.timeout_s == 0.0 else (b"1", base + b":c:" + session.id)
        words = [*self._words(session, want, number, b"1" if ticket else b""), wait, ticket]
        answer: bytes = yield from call(session, "take", [base], words, channel)
        return answer

    def _awaited(
        self, session: Session, base: bytes, want: Want, number: bytes, deadline: float | None, answer: bytes
    ) -> Program[bytes]:
        """In line: a note hands over; an alarm or a heartbeat asks again; at the deadline we leave the line."""
        while answer.startswith(b"wait"):
            session.ticket, wake = answer.split()[1], time.monotonic() + HEARTBEAT_S
            note = yield from _noted(session, number, deadline, wake)
            if note is not None:
                answer = note
            elif _left(deadline) == 0.0:
                words = [*self._words(session, want, number), session.ticket, b""]
                answer = yield from call(session, "cancel", [base], words)
            else:
                answer = yield from self._asked(session, base, want, number, session.ticket)
        session.ticket = b""
        return answer

    def _opened(self, session: Session, name: str, answer: bytes, lease_s: float | None) -> Program[list[Tuple]]:
        """Those that can be read; what cannot is moved aside. Raises: DamagedMessage: that was all."""
        found, errors = [], []
        for number, deliveries, data, history in parcel(answer):
            try:
                fields = decoded(number, data)
                for place, value in enumerate(fields):
                    if type(value) is BlobField:
                        fields[place] = yield from self._fetched(session, name, number, data, value)
            except Damaged as damaged:
                errors.append((yield from self._aside(session, name, damaged)))
                continue
            found.append(tuple_of(name, fields, [number, deliveries], lease_s, history))
        if errors and not found:
            raise errors[0]
        for error in errors:  # the others were taken with it, and would be lost
            log.warning("%s", error)
        return found

    def _aside(self, session: Session, name: str, damaged: Damaged) -> Program[DamagedMessage]:
        yield from call(session, "aside", [self.keys.base(name)], [self._now(), damaged.number, damaged.data])
        return DamagedMessage(name, int(damaged.number), damaged.reason)

    def _fetched(self, session: Session, name: str, number: bytes, data: bytes, blob: BlobField) -> Program[Any]:
        whole = bytearray()
        for i in range(blob.chunks):
            # GETRANGE, not GET: a chunk that is gone comes as b"", and never as None, which means no answer.
            chunk = yield from command(session, b"GETRANGE", self._chunk(name, blob, i), 0, -1)
            if not chunk:
                raise Damaged(number, data, f"chunk {i} of {blob.chunks} of a field is missing")
            whole += chunk
        try:
            return codec.unpack_field(whole)
        except ValueError as broken:
            raise Damaged(number, data, str(broken)) from None

    # -- leases

    def lease(self, tuples: Sequence[Tuple], how: bytes) -> Operation[None]:
        """Acknowledge (b"ack"), renew (b"renew MS") or release (b"release REASON") as one round trip.

        Raises: LeaseExpired: some are no longer ours; the others were done.
        """
        places = {name: b"%d" % (i + 1) for i, name in enumerate(dict.fromkeys(t.name for t in tuples))}
        bases = [self.keys.base(name) for name in places]
        triples = [word for t in tuples for word in (places[t.name], b"%d" % t.number, b"%d" % t.deliveries)]

        def program(session: Session) -> Program[None]:
            args = [self._now(), session.id, session.next_number(), b"", how, *triples]
            answer = yield from call(session, "lease", bases, args)
            late = {int(number) for number in answer.split()[1:]}
            for t in tuples:
                if t.number in late:
                    raise LeaseExpired(t.name, t.lease_s or 0.0)

        return program

    # -- the rest

    def count(self, template: Template) -> Operation[int]:
        """How many match and are free."""

        def program(session: Session) -> Program[int]:
            args = [self._now(), template.shape, template.values]
            answer: int = yield from call(session, "count", [self.keys.base(template.name)], args)
            return answer

        return program

    def clear(self, name: str) -> Operation[int]:
        """Remove all of a name; how many."""

        def program(session: Session) -> Program[int]:
            answer: int = yield from call(session, "clear", [self.keys.base(name)], [self._now()])
            return answer

        return program

    def commit(self, taken: Sequence[Tuple], items: Sequence[Entry]) -> Operation[None]:
        """Acknowledge all and put all, or nothing.

        Raises: LeaseExpired: one that was taken is no longer ours. NameFull. ServersDiffer.
        """
        names = list(dict.fromkeys([t.name for t in taken] + [item.name for item in items]))
        place = {name: b"%d" % (i + 1) for i, name in enumerate(names)}
        acks = [word for t in taken for word in (place[t.name], b"%d" % t.number, b"%d" % t.deliveries)]
        puts = [word for item in items for word in (place[item.name], item.signature, item.data)]
        bases = [self.keys.base(name) for name in names]

        def program(session: Session) -> Program[None]:
            yield from self._upload(session, items)
            args = [self._now(), session.id, session.next_number(), b"", b"%d" % len(taken), *acks, *puts]
            answer = yield from call(session, "commit", bases, args)
            if answer.startswith(b"late"):
                raise LeaseExpired(names[int(answer[5:]) - 1], taken[0].lease_s or 0.0)
            if answer.startswith(b"full"):
                raise NameFull(", ".join(names), int(answer[5:]))

        return program

    def configure(self, name: str, bound: int | None, deliveries: int | None) -> Operation[None]:
        """Set limits; None leaves one as it is, 0 removes it."""
        base = self.keys.base(name)

        def program(session: Session) -> Program[None]:
            yield from call(session, "configure", [base], [self._now(), _or_empty(bound), _or_empty(deliveries)])

        return program

    def damaged(self, name: str) -> Operation[list[bytes]]:
        """The raw messages that were moved aside."""
        base = self.keys.base(name)

        def program(session: Session) -> Program[list[bytes]]:
            answer: list[bytes] = yield from command(session, b"LRANGE", base + b":z", 0, -1)
            return answer

        return program

    def names(self) -> Operation[list[str]]:
        """The names this server holds, in alphabetical order."""

        def program(session: Session) -> Program[list[str]]:
            found = yield from scan(session, self.keys.pattern(b":m"))
            return sorted(self.keys.name(key.removesuffix(b":m")) for key in found)

        return program

    def erase(self) -> Operation[None]:
        """Delete every key of the space."""

        def program(session: Session) -> Program[None]:
            for key in (yield from scan(session, self.keys.pattern())):
                yield from command(session, b"DEL", key)

        return program

    def follow(self, name: str, seconds: float) -> Operation[Tuple | None]:
        """The next tuple put under a name while we listen, None after some seconds without one. Takes nothing."""
        base = self.keys.base(name)

        def program(session: Session) -> Program[Tuple | None]:
            if not session.notes:
                args = [self._now(), b"%d" % round(3000 * max(seconds, 1.0))]
                yield from call(session, "tap", [base], args, base + b":tap")
            note = yield from listen(session, seconds)
            if note is None:
                return None
            number, _, data = note.partition(b"\n")
            return tuple_of(name, decoded(number, data), [number, b"0"], None, b"")

        return program

    def survey(self, name: str) -> Operation[Statistics]:
        """What statistics() shows of a name."""
        base = self.keys.base(name)

        def program(session: Session) -> Program[Statistics]:
            answer = yield from call(session, "survey", [base], [self._now()])
            return Statistics.of_survey(answer)

        return program


def held(tuples: Tuple | Iterable[Tuple]) -> list[Tuple]:
    """One tuple or several -> a list of tuples (a Tuple is itself iterable)."""
    return [tuples] if isinstance(tuples, Tuple) else list(tuples)


def _or_empty(number: int | None) -> bytes:
    return b"" if number is None else b"%d" % number


def explained(name: str, refused: ServerRefused) -> BusError:
    """A server's refusal as the error it means for a name."""
    if refused.message.startswith("OOM"):
        return OutOfMemory(name, refused.address)
    if refused.message.startswith("CROSSSLOT"):
        return ServersDiffer((name, "the others of this request"))
    return refused


def _noted(session: Session, number: bytes, deadline: float | None, wake: float) -> Program[bytes | None]:
    """Wait for what is handed over to this request; None when it is time to ask again, or to give up."""
    while True:
        seconds = max(0.0, _sooner(_left(deadline), wake - time.monotonic()))
        note = yield from listen(session, seconds)
        if note is None:
            if not session.connected or seconds == 0.0:
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
