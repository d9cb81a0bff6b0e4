"""Request -> answer, without a socket: what a client does, as generators that a connection drives.

A program yields steps and is sent what came of them; it is thrown Disconnected where the connection broke. What is hard
(reconnecting, repeating a request without doing it twice, waiting for a hand-over) is here; a connection moves bytes.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import random
import re
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import hiredis

from steersman.bus.addresses import Address
from steersman.bus.errors import ServerLost, ServerRefused
from steersman.system.errors import EngineError

T = TypeVar("T")
ANSWER_S = 30.0  # no answer for longer: the connection is taken as cut, and the request is repeated on a new one
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
REMEMBERED = frozenset({"put", "commit", "take", "cancel", "lease"})  # their fourth argument marks a repeated request
log = logging.getLogger("steersman.bus")


class Disconnected(EngineError):
    """The connection broke, was refused or gave no answer in time; internal, becomes ServerLost."""

    cause: str

    def __str__(self) -> str:
        return self.cause


@dataclass(frozen=True)
class Connect:
    """Step: close what is open, connect anew; is sent the Address."""


@dataclass(frozen=True)
class Pause:
    """Step: wait this long."""

    seconds: float


@dataclass(slots=True)  # not frozen: that would cost more than the rest of the step
class Exchange:
    """Step: send data (may be empty), then receive one message; is sent the message, or None after timeout_s."""

    data: bytes
    timeout_s: float | None


Step = Connect | Pause | Exchange
Program = Generator[Step, Any, T]


@dataclass
class Session:
    """One connection's memory, which outlives its socket: the server knows it by its id."""

    patience_s: float = 60.0
    id: bytes = field(default_factory=lambda: os.urandom(8).hex().encode())
    number: int = 0
    connected: bool = False
    busy: bool = False  # an answer is outstanding: a program left here leaves the connection unusable
    address: Address = field(default_factory=Address)
    channels: set[bytes] = field(default_factory=set)
    notes: list[bytes] = field(default_factory=list)  # pushed while another answer was awaited
    ticket: bytes = b""  # our place in a line, while we wait in one

    @property
    def answer_s(self) -> float:
        """How long one answer may take; less for who has less patience."""
        return min(ANSWER_S, self.patience_s)

    def next_number(self) -> bytes:
        """A number for each request, so that a repeated one is known."""
        self.number += 1
        return b"%d" % self.number


def pack(*words: Any) -> bytes:
    """A command as the server reads it."""
    data: bytes = hiredis.pack_command(words)
    return data


@functools.cache
def library() -> tuple[bytes, bytes]:
    """The code of the server's functions and the version in their names."""
    code = (Path(__file__).parent / "space.lua").read_text()
    version = hashlib.sha1(code.encode(), usedforsecurity=False).hexdigest()[:10]
    return code.replace("VERSION", version).encode(), version.encode()


@functools.cache
def function(word: str) -> bytes:
    """The name of a function in this version of the library."""
    return word.encode() + b"_" + library()[1]


def call(session: Session, word: str, keys: list[bytes], args: Iterable[Any], channel: bytes = b"") -> Program[Any]:
    """Call a function of the library: one round trip.

    Args:
        channel: where a hand-over will arrive; subscribed to with the same write when it is not yet.
    """
    command: list[Any] = [b"FCALL", function(word), b"%d" % len(keys), *keys, *args]
    mark_at = 3 + len(keys) + 3 if word in REMEMBERED else 0
    return (yield from _persist(session, command, mark_at, channel))


def command(session: Session, *words: Any) -> Program[Any]:
    """A plain, repeatable Redis command."""
    return (yield from _persist(session, list(words), 0, b""))


def scan(session: Session, pattern: bytes) -> Program[set[bytes]]:
    """The keys of this server that match."""
    cursor: bytes | None = None
    found: set[bytes] = set()
    while cursor != b"0":
        cursor, page = yield from command(session, b"SCAN", cursor or b"0", b"MATCH", pattern, b"COUNT", 1000)
        found.update(page)
    return found


def _persist(session: Session, words: list[Any], retry_at: int, channel: bytes) -> Program[Any]:
    """Send until answered: reconnect with backoff, load the library where it is missing."""
    outage = _Outage(session)
    while True:
        try:
            if not session.connected:
                yield from _greet(session)
            session.busy = True
            answer = yield Exchange(_packed(session, words, channel), session.answer_s)
            if answer is None or type(answer) is hiredis.PushNotification:
                answer = yield from _next_answer(session, answer)
            session.busy = False
            if not isinstance(answer, hiredis.ReplyError):
                outage.over()
                return answer
            yield from _recover(session, str(answer), outage)
        except ServerRefused:
            session.connected = False  # more answers may be under way
            raise
        except Disconnected as broken:
            session.connected, session.busy = False, False
            if retry_at:
                words[retry_at] = b"1"
            yield Pause(outage.next_pause(str(broken)))


def _packed(session: Session, words: list[Any], channel: bytes) -> bytes:
    data = pack(*words)
    if channel and channel not in session.channels:
        session.channels.add(channel)
        data = pack(b"SSUBSCRIBE", channel) + data
    return data


def _ask(session: Session, data: bytes) -> Program[Any]:
    session.busy = True
    answer = yield from _next_answer(session, (yield Exchange(data, session.answer_s)))
    session.busy = False
    return answer


def _next_answer(session: Session, message: Any) -> Program[Any]:
    """The message itself, or what follows when it is a pushed note."""
    while isinstance(message, hiredis.PushNotification):
        _note(session, message)
        message = yield Exchange(b"", session.answer_s)
    if message is None:
        raise Disconnected(f"no answer within {session.answer_s:g} s")
    return message


def _note(session: Session, push: Any) -> None:
    if push[0] == b"smessage":
        session.notes.append(push[2])
    elif push[0] == b"sunsubscribe":  # a cluster moved the slot of this channel
        session.channels.discard(push[1])


def _greet(session: Session) -> Program[None]:
    session.channels.clear()
    session.notes.clear()
    refused: Address | None = None
    while True:
        session.address = yield Connect()
        session.connected = True
        words: list[Any] = [b"HELLO", b"3"]
        if session.address.password:
            words += [b"AUTH", session.address.user or b"default", session.address.password]
        answer = yield from _ask(session, pack(*words))
        if not isinstance(answer, hiredis.ReplyError):
            return
        if not str(answer).startswith("WRONGPASS") or session.address == refused:
            return (yield from _recover(session, str(answer), _Outage(session)))
        refused = session.address  # a server that was started again meanwhile has another password, which is read now


def _recover(session: Session, message: str, outage: _Outage) -> Program[None]:
    """An error answer: what passes is waited for, what is missing is loaded, the rest is raised."""
    if "unction not found" in message:
        yield from expect_no_eviction(session)
        answer = yield from _ask(session, pack(b"FUNCTION", b"LOAD", library()[0]))
        if isinstance(answer, hiredis.ReplyError) and "already exists" not in str(answer):
            raise ServerRefused(str(session.address), str(answer))
    elif message.startswith(("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN")):
        raise Disconnected(message)
    else:
        raise ServerRefused(str(session.address), message)


def expect_no_eviction(session: Session) -> Program[None]:
    """Ask a server what it does when its memory is full. Raises: ServerRefused: it would throw tuples away."""
    answer = yield from _ask(session, pack(b"INFO", b"memory"))
    found = re.search(rb"maxmemory_policy:(\S+)", answer) if isinstance(answer, bytes) else None
    if found is None:
        log.warning("%s does not say its maxmemory-policy; with one of allkeys-* tuples get lost", session.address)
    elif found[1].startswith(b"allkeys-"):
        cure = "set it to noeviction, or use another server"
        words = f"its maxmemory-policy is {found[1].decode()}, which throws tuples away when its memory is full; {cure}"
        raise ServerRefused(str(session.address), words)


_JITTER = random.Random()  # its own: the numbers that a program draws are not ours to change


class _Outage:
    """How long a server has been gone, and how long to wait before asking again."""

    def __init__(self, session: Session) -> None:
        self._session, self._since, self._pauses = session, 0.0, itertools.count()

    def next_pause(self, reason: str) -> float:
        """Raises: ServerLost: our patience ended."""
        now = time.monotonic()
        if not self._since:
            self._since = now
            log.warning("%s does not answer (%s); its names are blocked until it does", self._session.address, reason)
        if now - self._since > self._session.patience_s:
            raise ServerLost(str(self._session.address), self._session.patience_s, reason)
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(next(self._pauses), 10))
        return longest * _JITTER.uniform(0.5, 1.0)

    def over(self) -> None:
        if self._since:
            log.warning("%s answers again after %.1f s", self._session.address, time.monotonic() - self._since)


def listen(session: Session, seconds: float | None) -> Program[bytes | None]:
    """Wait for one pushed note; None when there is none in time. A broken connection ends the wait early."""
    if session.notes:
        return session.notes.pop(0)
    if not session.connected:
        return None
    try:
        push = yield Exchange(b"", seconds)
    except Disconnected:
        session.connected = False
        return None
    if push is not None:
        _note(session, push)
    return session.notes.pop(0) if session.notes else None


Operation = Callable[[Session], Program[T]]
