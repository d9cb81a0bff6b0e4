"""`@wf.answer(shared=True)`: one process of a node answers its walkers together, in batches.

The first walker that asks leads: a thread of its process answers all. Where it ends, the next one that asks does. They
find each other by an abstract socket of Linux, which a name has once and a node knows; the kernel says whose it is.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from steersman.system import node
from steersman.system.errors import EngineError, UnknownName, told

CREDENTIALS = struct.Struct("3i")  # process, user, group
Outputs = Mapping[str, Any]
Given = dict[Connection, tuple[bytes, Any, Any]]  # parameters and model, as packed and as they are, of who is connected
Waiting = dict[Connection, dict[str, np.ndarray]]  # the inputs of who asks


class UnknownInput(UnknownName, KeyError):
    """A function looks for what a program did not send."""


class Inputs(dict[str, Any]):
    """What a program sends to a function."""

    def __init__(self, function: str, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._function = function

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownInput(f"input of {self._function}", name, self)


@dataclass
class Shared:
    """A function that answers several walkers at once; called as one that answers one.

    Args:
        function: (params, model, inputs) -> outputs, with a first axis along the walkers in all arrays.
        file: of the workflow: walkers of the same file, as it was when it was loaded, are answered together; None of a
            notebook's cell, which nobody shares.
        batch: walkers of a call at most.
        wait_ms: so long the first one waits for others, unless all that are connected wait.
        gpus: 1 puts the model on the GPU of who leads.
    """

    function: Callable[[Any, Any, Mapping[str, Any]], Outputs]
    file: str | None
    batch: int
    wait_ms: float
    gpus: int
    _wire: Connection | None = None
    _known: tuple[Any, Any, bytes] | None = None  # parameters and model as they were packed
    _sent: bytes = b""  # what the other side has of them

    def __post_init__(self) -> None:
        there = self.file and Path(self.file).is_file()
        code = Path(str(self.file)).read_bytes() if there else str(os.getpid()).encode()
        of = f"{self.file} {self.function.__qualname__} {node.name()} {os.getuid()} ".encode() + code
        self._name = f"\0steersman-{hashlib.sha256(of).hexdigest()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self.function, self.file, self.batch, self.wait_ms, self.gpus)

    def __call__(self, params: Any, model: Any, inputs: Mapping[str, Any]) -> Outputs:
        """Raises: UnknownInput: it looks for another input. RuntimeError: what else it raised, where it was called.
        EngineError: another user answers."""
        if self._known is None or self._known[0] is not params or self._known[1] is not model:
            self._known = params, model, pickle.dumps((params, model))
        packed = self._known[2]
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        while True:
            try:
                self._wire = self._wire or self._connected()
                self._wire.send((None if packed == self._sent else packed, arrays))
                well, said = self._wire.recv()
            except (EOFError, ConnectionError):  # who led has ended
                self._wire, self._sent = None, b""
                continue
            self._sent = packed if well else b""
            if not well:
                raise said if isinstance(said, UnknownInput) else RuntimeError(said)
            return dict(said)

    def _connected(self) -> Connection:
        while True:
            wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                wire.connect(self._name)
            except ConnectionRefusedError:
                wire.close()
                self._lead()
                continue
            if not _ours(wire):
                raise EngineError("another user of this node has taken the name by which walkers find who answers")
            return Connection(wire.detach())

    def _lead(self) -> None:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(self._name)
            door.listen(1024)
        except OSError as taken:
            door.close()
            if taken.errno != errno.EADDRINUSE:  # else somebody was quicker
                raise
            return
        threading.Thread(target=self._serve, args=(door,), daemon=True).start()

    def _serve(self, door: socket.socket) -> None:
        given, waiting = Given(), Waiting()
        until = 0.0
        while True:
            left = until - time.monotonic() if waiting else None
            if left is not None and (left <= 0 or len(waiting) >= min(self.batch, len(given))):
                for several in self._together(waiting, given):
                    self._answer(several, waiting, given)
                waiting.clear()
                continue
            for each in wait([door, *given], left):
                if each is door:
                    wire, _ = door.accept()
                    if _ours(wire):
                        given[Connection(wire.detach())] = b"", None, None
                    continue
                assert isinstance(each, Connection)
                try:
                    packed, inputs = each.recv()
                except (EOFError, OSError):
                    each.close()
                    given.pop(each)
                    waiting.pop(each, None)
                    continue
                try:
                    given[each] = self._unpacked(packed, given) if packed is not None else given[each]
                except Exception as error:  # a class that is not to be imported here
                    _reply(each, (False, told(error)))
                    continue
                until = until if waiting else time.monotonic() + self.wait_ms / 1000
                waiting[each] = inputs

    def _unpacked(self, packed: bytes, given: Given) -> tuple[bytes, Any, Any]:
        """One object for all walkers that have the same."""
        if same := [each for each in given.values() if each[0] == packed]:
            return same[0]
        params, model = pickle.loads(packed)
        if self.gpus and model is not None:
            from steersman.models import device

            model = model.to(device.best())
        return packed, params, model

    def _together(self, waiting: Waiting, given: Given) -> Iterator[Sequence[Connection]]:
        """Those with the same parameters and model, and inputs of the same shapes."""
        groups: dict[Any, list[Connection]] = {}
        for wire, inputs in waiting.items():
            alike = id(given[wire][0]), *((name, each.dtype.str, each.shape) for name, each in sorted(inputs.items()))
            groups.setdefault(alike, []).append(wire)
        for group in groups.values():
            yield from (group[at : at + self.batch] for at in range(0, len(group), self.batch))

    def _answer(self, wires: Sequence[Connection], waiting: Waiting, given: Given) -> None:
        name, n = self.function.__name__, len(wires)
        try:
            inputs = Inputs(name, {x: np.stack([waiting[wire][x] for wire in wires]) for x in waiting[wires[0]]})
            returned = self.function(*given[wires[0]][1:], inputs)
            if not isinstance(returned, Mapping):
                raise TypeError(f"it returned {returned!r:.60}; return arrays by their names")
            outputs = {each: np.asarray(x) for each, x in returned.items()}
            if odd := [each for each, x in outputs.items() if x.shape[:1] != (n,)]:
                raise TypeError(
                    f"output {odd[0]} has shape {outputs[odd[0]].shape}: give a row for each of {n} walkers"
                )
            replies: list[tuple[bool, Any]] = [(True, {k: x[i] for k, x in outputs.items()}) for i in range(n)]
        except UnknownInput as error:
            replies = [(False, error)] * n
        except Exception as error:  # of a user's function: it belongs to those who asked
            replies = [(False, f"@wf.answer {name}: {told(error)}")] * n
        for wire, reply in zip(wires, replies, strict=True):
            _reply(wire, reply)


def _reply(wire: Connection, reply: tuple[bool, Any]) -> None:
    with contextlib.suppress(OSError):  # it has gone; its end says so
        wire.send(reply)


def _ours(wire: socket.socket) -> bool:
    """Whether the process at the other end is this user's."""
    _, user, _ = CREDENTIALS.unpack(wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return bool(user == os.getuid())
