"""Between a walker and a program that calls steersman.h: a Unix socket, and shared memory for large arrays; TCP where
the program may be on another node.

A call is a head, an item for each array, and the small arrays; the answer a head, and what small arrays were wanted.
`steersman.c` is the other side.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hmac
import math
import mmap
import os
import secrets
import select
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

import numpy as np

from steersman.system import node
from steersman.system.errors import BadValue, EngineError

MAJOR, MINOR = 1, 0  # of steersman.h
OK, NONE, REFUSED, VERSION = 0, 2, -1, -3
LOGICAL, TEXT = 7, 8
TYPES = {1: "float32", 2: "float64", 3: "int8", 4: "int16", 5: "int32", 6: "int64", LOGICAL: "bool", TEXT: "text"}
MAGIC = 0x4D525453
HEAD, ITEM, ANSWER = struct.Struct("=4I2Q2d64s"), struct.Struct("=64s2I7qQq2I"), struct.Struct("=IiQ")
ALONE = 2  # references to an array that a list has: the list's, and that of the question
BUFFER = 2**20  # bytes that are received at once
FEW_S = 2.0  # a process that connects says at once who it is
GUESTS = 16  # that have not said it yet
IDLE_S = 60  # without a word, the other side of a connection by TCP is asked whether it is there
LONGEST = 80  # bytes of a folder for sockets, whose paths have at most 107


class Do(IntEnum):
    """What a program calls, as steersman.c numbers it."""

    OPEN = 1
    CLOSE = 2
    SEED = 3
    PARAMETER = 4
    FRAME = 5
    STATE = 6
    DRAW = 7
    APPEND = 8
    COMMIT = 9
    STOPPED = 10
    STATE_PUT = 11
    ASK = 12
    PUT = 13
    TAKE = 14
    READ = 15
    ACK = 16
    WATCH = 17  # a second connection by TCP, which ends when this process dies


@dataclass(frozen=True)
class Item:
    """An array of a program: what it is like, and where it lies in the shared memory, or -1."""

    name: str
    kind: int
    shape: tuple[int, ...]
    bytes: int
    place: int
    order: str  # F: the first index runs fastest; C: the last

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements as they lie there; a logical takes 1, 2, 4 or 8 bytes."""
        if self.kind == LOGICAL:
            return np.dtype(f"u{self.bytes // max(1, math.prod(self.shape)) or 1}")
        return np.dtype("u1" if self.kind == TEXT else TYPES[self.kind])

    def __str__(self) -> str:
        """As the program has it."""
        return f"{TYPES[self.kind]} of shape {self.shape}"

    def read(self, memory: Any, place: int) -> np.ndarray:
        """A view of what lies there."""
        flat = np.frombuffer(memory, self.dtype, math.prod(self.shape), place)
        flat.flags.writeable = False
        return flat.reshape(self.shape, order=self.order)  # type: ignore[call-overload,no-any-return]

    def value(self, view: np.ndarray) -> np.ndarray | str:
        """What a view means, on its own: booleans, text."""
        if self.kind == TEXT:
            return view.tobytes().rstrip(b" \0").decode(errors="replace")
        return view != 0 if self.kind == LOGICAL else np.array(view, order="C")

    def fitted(self, value: Any) -> np.ndarray:
        """A value as the program wants it; no number is rounded for that.

        Raises: BadValue: it has another shape or type.
        """
        if self.kind == TEXT:
            return self._text(value)
        array = np.asarray(value)
        numbers = array.dtype.kind in "iuf" if self.kind != LOGICAL else False
        if array.shape != self.shape or not (numbers or array.dtype.kind == "b"):
            raise self._odd(array)
        if self.kind == LOGICAL:
            return array.astype(self.dtype)
        with np.errstate(invalid="ignore"):
            wanted = array.astype(self.dtype, copy=False)
            kept = np.array_equal(wanted.astype(array.dtype, copy=False), array, equal_nan=True)
        if not (kept and (array.ndim == 0 or np.can_cast(array.dtype, self.dtype, "safe"))):
            raise self._odd(array)
        return wanted

    def _text(self, value: Any) -> np.ndarray:
        given = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
        if given is None or len(given) > self.shape[0]:
            problem = f"{len(given)} bytes of text" if given is not None else f"{type(value).__name__}"
            raise BadValue(self.name, f"text of up to {self.shape[0]} bytes", f"it is {problem}")
        return np.frombuffer(given.ljust(self.shape[0], b" " if self.order == "F" else b"\0"), np.uint8)

    def _odd(self, array: np.ndarray) -> BadValue:
        return BadValue(self.name, str(self), f"it is {array.dtype} of shape {array.shape}")


@dataclass
class Request:
    """What a program asks.

    Args:
        name: of an answer, or of tuples; of the first the token.
        a, b: a time, a limit, a version.
        given: what it sends, views that are good until the answer.
        wanted: what it wants back.
    """

    what: int
    name: str
    a: float
    b: float
    given: list[tuple[Item, np.ndarray]] = field(default_factory=list)
    wanted: list[Item] = field(default_factory=list)

    def inputs(self) -> dict[str, Any]:
        """What it sends, by name; arrays that only this call may use."""
        means = LOGICAL, TEXT
        return {item.name: item.value(view) if item.kind in means else view for item, view in self.given}

    def kept(self) -> bool:
        """Whether somebody keeps a view of the shared memory, which the next call overwrites. The views end here."""
        bases = [view.base if view.base is not None else view for item, view in self.given if item.place >= 0]
        self.given = []
        held = [i for i in range(len(bases)) if sys.getrefcount(bases[i]) > ALONE]
        return bool(held) and gc.collect() >= 0 and any(sys.getrefcount(bases[i]) > ALONE for i in held)


class Line:
    """A socket for one process at a time; a context manager.

    Args:
        host: a node from which the program may connect, too, by TCP; None: there is none.
    Attributes:
        environment: what a program needs to find it.
    """

    def __init__(self, host: str | None = None) -> None:
        self._token, self._memory, self._host = secrets.token_hex(16), -1, host
        self._wire: socket.socket | None = None
        self._area: mmap.mmap | None = None
        self._buffer = bytearray(BUFFER)
        self._doors = dict[int, socket.socket]()
        self._guests = dict[int, tuple[socket.socket, bytearray, float]]()  # until when they may say who they are

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            long = len(tempfile.gettempdir()) > LONGEST
            folder = Path(tempfile.mkdtemp(prefix="steersman-", dir="/tmp" if long else None))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self._looks = select.poll()
            self.environment = {"STEERSMAN_SOCKET": str(folder / "walker"), "STEERSMAN_TOKEN": self._token}
            self._listen(stack, socket.AF_UNIX, str(folder / "walker"))
            (folder / "walker").chmod(0o600)
            with contextlib.suppress(OSError):  # no way to there: the program says that it reaches nobody
                if self._host is not None:
                    place = self._listen(stack, socket.AF_INET, (node.address_towards(self._host), 0))
                    self.environment["STEERSMAN_ADDRESS"] = "{}:{}".format(*place)
            self._alive, end = os.pipe()  # `end` is closed when this process dies
            stack.callback(os.close, self._alive)
            stack.callback(os.close, end)
            stack.callback(self.hang_up)
            self._made = stack.pop_all()
        return self

    def _listen(self, stack: contextlib.ExitStack, family: int, address: Any) -> Any:
        door = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        door.bind(address)
        door.listen()
        self._looks.register(door, select.POLLIN)
        self._doors[door.fileno()] = door
        return door.getsockname()

    def __exit__(self, *_: object) -> None:
        for handle in list(self._guests):
            self._guests.pop(handle)[0].close()
        self._made.close()

    @property
    def connected(self) -> bool:
        """A program is."""
        return self._wire is not None

    def hang_up(self) -> None:
        """Forget the process that is connected."""
        if self._wire is not None:
            self._looks.unregister(self._wire)
            self._wire.close()
        if self._memory >= 0:
            os.close(self._memory)
        self._wire, self._area, self._memory = None, None, -1

    def next(self, within_s: float) -> Request | None:
        """What the program asks next; None where nothing came in time, or it has gone."""
        for handle, _ in self._looks.poll(1000 * within_s):
            if handle in self._doors:
                self._welcome(self._doors[handle])
            elif handle in self._guests:
                self._let_in(handle)
            elif self._wire is not None and (call := self._received(self._wire)):
                return call
            else:
                self.hang_up()
        return None

    def answer(self, code: int, sentence: str = "") -> None:
        """Say that it is so, or not."""
        self._send(code, sentence.encode())

    def give(self, call: Request, values: Sequence[np.ndarray]) -> None:
        """Answer with the arrays that were wanted, as `Item.fitted` made them."""
        small = []
        for item, array in zip(call.wanted, values, strict=True):
            if item.place < 0:
                small.append(array.tobytes(order=item.order))  # type: ignore[arg-type]
            else:
                assert self._area is not None
                flat = np.frombuffer(self._area, item.dtype, array.size, item.place)
                flat.reshape(item.shape, order=item.order)[...] = array  # type: ignore[call-overload]
        self._send(OK, b"".join(small))

    def _send(self, code: int, data: bytes) -> None:
        if self._wire is not None:
            with contextlib.suppress(OSError):  # it has died: its end says so
                self._wire.sendall(ANSWER.pack(MAGIC, code, len(data)) + data)

    def _welcome(self, door: socket.socket) -> None:
        """Somebody has connected. Those who have been silent for too long, or are too many, are sent away."""
        for handle, (_, _, until) in list(self._guests.items()):
            if until < time.monotonic() or len(self._guests) >= GUESTS:
                self._dismiss(handle).close()
        with contextlib.suppress(OSError):  # who has gone again
            wire, _ = door.accept()
            wire.setblocking(False)
            self._looks.register(wire, select.POLLIN)
            self._guests[wire.fileno()] = wire, bytearray(), time.monotonic() + FEW_S

    def _dismiss(self, handle: int) -> socket.socket:
        self._looks.unregister(handle)
        return self._guests.pop(handle)[0]

    def _let_in(self, handle: int) -> None:
        """Hear who somebody is: no more is read of a stranger than the head with the token."""
        wire, said, _ = self._guests[handle]
        try:
            new = wire.recv(HEAD.size - len(said))
        except OSError:
            new = b""
        said += new
        if new and len(said) < HEAD.size:
            return
        self._dismiss(handle)
        call = _call(said)
        if problem := self._problem(call):
            with contextlib.suppress(OSError):
                wire.sendall(ANSWER.pack(MAGIC, problem[0], len(problem[1])) + problem[1].encode())
            wire.close()
            return
        wire.settimeout(None)
        sentence, files = f"open: Steersman's line {MAJOR}.{MINOR}".encode(), []
        if wire.family == socket.AF_UNIX:
            self._memory = os.memfd_create("steersman", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            fcntl.fcntl(self._memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # or whoever reads it would die
            files = [self._memory, self._alive]
        else:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        with contextlib.suppress(OSError):
            socket.send_fds(wire, [ANSWER.pack(MAGIC, OK, len(sentence)) + sentence], files)
        if call is not None and call.what == Do.WATCH:
            self._made.callback(wire.close)
        else:
            self._wire = wire
            self._looks.register(wire, select.POLLIN)

    def _problem(self, first: Request | None) -> tuple[int, str] | None:
        if first is None or not hmac.compare_digest(first.name.encode(), self._token.encode()):
            return REFUSED, "the token is not the one that this walker gave to its program"
        if int(first.a) != MAJOR:
            words = f"this program was built with version {first.a:.0f}.{first.b:.0f} of steersman.h"
            return VERSION, f"{words}, and its walker has version {MAJOR}.{MINOR}: build it with the walker's"
        if first.what not in (Do.OPEN, Do.WATCH) or (self._wire is not None) != (first.what == Do.WATCH):
            return REFUSED, "another process of this program is open already; under MPI only rank 0 calls"
        return None

    def _received(self, wire: socket.socket) -> Request | None:
        """None: it has gone. Raises: EngineError: it is no call."""
        size = self._fill(wire, 0, HEAD.size)
        if size < HEAD.size:
            return None
        magic, what, n_given, n_wanted, length, area, a, b, name = HEAD.unpack_from(self._buffer)
        if magic != MAGIC:
            raise EngineError("a program sent what is no call of steersman.h")
        if HEAD.size + length > len(self._buffer):
            self._buffer = self._buffer + bytearray(length)
        if self._fill(wire, size, HEAD.size + length) < HEAD.size + length:
            return None
        if area and (self._area is None or area > len(self._area)):
            self._area = mmap.mmap(self._memory, area)
        call = Request(what, _text(name), a, b)
        small, place = bytes(memoryview(self._buffer)[HEAD.size : HEAD.size + length]), ITEM.size * (n_given + n_wanted)
        for i, item in enumerate(_items(small, n_given + n_wanted)):
            if i >= n_given:
                call.wanted.append(item)
            elif item.place >= 0:
                call.given.append((item, item.read(self._area, item.place)))
            else:
                call.given.append((item, item.read(small, place)))
                place += item.bytes
        return call

    def _fill(self, wire: socket.socket, size: int, wanted: int) -> int:
        """Receive into the buffer until it holds so much, or what comes ends; returns how much it holds."""
        with memoryview(self._buffer) as view:
            while size < wanted:
                with contextlib.suppress(ConnectionResetError):
                    if n := wire.recv_into(view[size:]):
                        size += n
                        continue
                break
        return size


def _call(head: bytes | bytearray) -> Request | None:
    """What a head says; None: it is none, or more than a head follows."""
    if len(head) < HEAD.size:
        return None
    magic, what, _, _, length, _, a, b, name = HEAD.unpack(head)
    return Request(what, _text(name), a, b) if magic == MAGIC and not length else None


def _items(data: bytes, n: int) -> Iterator[Item]:
    for i in range(n):
        name, kind, rank, *shape, size, place, fortran, _ = ITEM.unpack_from(data, i * ITEM.size)
        yield Item(_text(name), kind, tuple(shape[:rank]), size, place, "F" if fortran else "C")


def _text(name: bytes) -> str:
    return name.partition(b"\0")[0].decode(errors="replace")
