"""Requests to one server, each answered once: reconnected with patience, repeated without doing it twice."""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import random
import re
import socket
import ssl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hiredis

from steersman.bus.addresses import Address, Resolve
from steersman.bus.errors import ServerLost, ServerRefused
from steersman.system.errors import EngineError

CONNECT_S = 5.0
ANSWER_S = 30.0  # no answer for longer: the connection is taken as cut, and the request is repeated on a new one
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
READ_BYTES = 65536
REMEMBERED = frozenset({"put", "commit", "take", "cancel", "lease"})  # their fourth argument marks a repeated request
_MORE = object()
log = logging.getLogger("steersman.bus")


class Disconnected(EngineError):
    """The connection broke, was refused or gave no answer in time; internal, becomes ServerLost."""

    cause: str

    def __str__(self) -> str:
        return self.cause


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


class Connection:
    """One socket after the other, used by one thread at a time.

    Args:
        patience_s: so long a server may be silent.
    Attributes:
        id: by which the server knows this client, whichever its socket is.
        ticket: our place in a line, while we wait in one.
        notes: pushed while another answer was awaited.
    """

    def __init__(self, resolve: Resolve, patience_s: float) -> None:
        self.patience_s, self._resolve = patience_s, resolve
        self.id = os.urandom(8).hex().encode()
        self.ticket, self.notes = b"", list[bytes]()
        self._answer_s = min(ANSWER_S, patience_s)  # less for who has less patience
        self._number, self._channels = 0, set[bytes]()
        self._address = Address()
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._limit_s: float | None = -1.0

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def close(self) -> None:
        """The next request connects anew."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        if self._socket is not None:  # a space that nobody closed ends without a ResourceWarning
            self._socket.close()

    def next_number(self) -> bytes:
        """A number for each request, so that a repeated one is known."""
        self._number += 1
        return b"%d" % self._number

    def call(self, word: str, keys: list[bytes], args: Iterable[Any], channel: bytes = b"") -> Any:
        """Call a function of the library: one round trip.

        Args:
            channel: where a hand-over will arrive; subscribed to with the same write when it is not yet.
        Raises: ServerLost, ServerRefused.
        """
        words: list[Any] = [b"FCALL", function(word), b"%d" % len(keys), *keys, *args]
        return self._persist(words, 3 + len(keys) + 3 if word in REMEMBERED else 0, channel)

    def command(self, *words: Any) -> Any:
        """A plain, repeatable Redis command. Raises: ServerLost, ServerRefused."""
        return self._persist(list(words), 0, b"")

    def scan(self, pattern: bytes) -> set[bytes]:
        """The keys of this server that match."""
        cursor: bytes | None = None
        keys: set[bytes] = set()
        while cursor != b"0":
            cursor, page = self.command(b"SCAN", cursor or b"0", b"MATCH", pattern, b"COUNT", 1000)
            keys.update(page)
        return keys

    def listen(self, seconds: float | None) -> bytes | None:
        """Wait for one pushed note; None when there is none in time. A broken connection ends the wait early."""
        if not self.notes and self._socket is not None:
            try:
                push = self._received(seconds)
            except Disconnected:
                self.close()
                return None
            if push is not None:
                self._note(push)
        return self.notes.pop(0) if self.notes else None

    def expect_no_eviction(self) -> None:
        """Ask a server what it does when its memory is full. Raises: ServerRefused: it would throw tuples away."""
        answer = self._ask(pack(b"INFO", b"memory"))
        match = re.search(rb"maxmemory_policy:(\S+)", answer) if isinstance(answer, bytes) else None
        if match is None:
            log.warning("%s does not say its maxmemory-policy; with one of allkeys-* tuples get lost", self._address)
        elif match[1].startswith(b"allkeys-"):
            policy = f"its maxmemory-policy is {match[1].decode()}, which throws tuples away when its memory is full"
            raise ServerRefused(str(self._address), f"{policy}; set it to noeviction, or use another server")

    def _persist(self, words: list[Any], retry_at: int, channel: bytes) -> Any:
        """Send until answered: reconnect with backoff, load the library where it is missing."""
        outage = _Outage(self.patience_s)
        while True:
            try:
                if self._socket is None:
                    self._greet()
                answer = self._ask(self._packed(words, channel))
                if not isinstance(answer, hiredis.ReplyError):
                    outage.over(self._address)
                    return answer
                self._recover(str(answer))
            except ServerRefused:
                self.close()  # more answers may be under way
                raise
            except Disconnected as broken:
                self.close()
                if retry_at:
                    words[retry_at] = b"1"
                time.sleep(outage.next_pause(self._address, str(broken)))

    def _packed(self, words: list[Any], channel: bytes) -> bytes:
        data = pack(*words)
        if channel and channel not in self._channels:
            self._channels.add(channel)
            data = pack(b"SSUBSCRIBE", channel) + data
        return data

    def _greet(self) -> None:
        self._channels.clear()
        self.notes.clear()
        refused: Address | None = None
        while True:
            self._connect()
            words: list[Any] = [b"HELLO", b"3"]
            if self._address.password:
                words += [b"AUTH", self._address.user or b"default", self._address.password]
            answer = self._ask(pack(*words))
            if not isinstance(answer, hiredis.ReplyError):
                return
            if not str(answer).startswith("WRONGPASS") or self._address == refused:
                self._recover(str(answer))
                return
            refused = self._address  # a server that was started again has another password, which is read now

    def _recover(self, message: str) -> None:
        """An error answer: what passes is waited for, what is missing is loaded, the rest is raised."""
        if "unction not found" in message:
            self.expect_no_eviction()
            answer = self._ask(pack(b"FUNCTION", b"LOAD", library()[0]))
            if isinstance(answer, hiredis.ReplyError) and "already exists" not in str(answer):
                raise ServerRefused(str(self._address), str(answer))
        elif message.startswith(("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN")):
            raise Disconnected(message)
        else:
            raise ServerRefused(str(self._address), message)

    def _ask(self, data: bytes) -> Any:
        """Send, and wait for the answer; a connection that is left without it, as by Ctrl-C, cannot be used again."""
        try:
            if self._socket is None:
                raise Disconnected("closed")
            self._limit(self._answer_s)
            try:
                self._socket.sendall(data)
            except OSError as broken:
                raise Disconnected(str(broken)) from None
            while isinstance(message := self._received(self._answer_s), hiredis.PushNotification):
                self._note(message)
            if message is None:
                raise Disconnected(f"no answer within {self._answer_s:g} s")
        except BaseException:
            self.close()
            raise
        return message

    def _received(self, timeout_s: float | None) -> Any:
        """The next message; None after a time without one. Raises: Disconnected."""
        try:
            while (message := self._reader.gets()) is _MORE:
                self._limit(timeout_s)
                try:
                    received = self._socket.recv(READ_BYTES) if self._socket else b""
                except (TimeoutError, BlockingIOError):
                    return None
                if not received:
                    raise Disconnected("closed by the server")
                self._reader.feed(received)
        except (OSError, hiredis.ProtocolError) as broken:
            raise Disconnected(str(broken)) from None
        return message

    def _note(self, push: Any) -> None:
        if push[0] == b"smessage":
            self.notes.append(push[2])
        elif push[0] == b"sunsubscribe":  # a cluster moved the slot of this channel
            self._channels.discard(push[1])

    def _limit(self, timeout_s: float | None) -> None:
        if timeout_s != self._limit_s and self._socket is not None:
            self._socket.settimeout(timeout_s)
            self._limit_s = timeout_s

    def _connect(self) -> None:
        self.close()
        self._address = address = self._resolve()
        try:
            self._socket = _open(address)
        except ssl.SSLError as untrusted:
            raise ServerRefused(str(address), f"TLS: {untrusted}; ?ca=FILE names a certificate to trust") from None
        except OSError as refused:
            raise Disconnected(str(refused)) from None
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._limit_s = -1.0


_JITTER = random.Random()  # its own: the numbers that a program draws are not ours to change


class _Outage:
    """How long a server has been gone, and how long to wait before asking again."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._since, self._pauses = patience_s, 0.0, itertools.count()

    def next_pause(self, address: Address, reason: str) -> float:
        """Raises: ServerLost: our patience ended."""
        now = time.monotonic()
        if not self._since:
            self._since = now
            log.warning("%s does not answer (%s); its names are blocked until it does", address, reason)
        if now - self._since > self._patience_s:
            raise ServerLost(str(address), self._patience_s, reason)
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(next(self._pauses), 10))
        return longest * _JITTER.uniform(0.5, 1.0)

    def over(self, address: Address) -> None:
        if self._since:
            log.warning("%s answers again after %.1f s", address, time.monotonic() - self._since)


def _open(address: Address) -> socket.socket:
    if address.path:
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(CONNECT_S)
        try:
            plain.connect(address.path)
        except OSError:
            plain.close()
            raise
        return plain
    plain = socket.create_connection((address.host, address.port), CONNECT_S)
    if plain.getsockname() == plain.getpeername():  # nobody listens, and this very port was given to us: an echo
        plain.close()
        raise ConnectionRefusedError(f"no server listens on {address}")
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not address.tls:
        return plain
    try:
        return address.tls_context().wrap_socket(plain, server_hostname=address.host)
    except (OSError, ServerRefused):
        plain.close()
        raise
