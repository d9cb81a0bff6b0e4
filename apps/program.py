"""A program that calls steersman.h -> frames: a solver in C, C++ or Fortran as a simulation, see docs/solvers.md."""

from __future__ import annotations

import itertools
import math
import os
import shlex
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steersman.apps.command import GRACE_S, directory, failed, started, stopped
from steersman.apps.line import NONE, REFUSED, TEXT, TYPES, Do, Item, Line, Request
from steersman.stages.kinds.answer import Answers
from steersman.stages.segment import Segment
from steersman.stages.start import Start
from steersman.system.errors import BadInput, BadValue, EngineError, UnknownName

LOOK_S = 0.2  # between two looks at whether the segment is to end, where the program says nothing
AWAY_S = 0.01  # the same, and whether the program has ended, while it is not connected
STOP_S = 20.0
TAKEN_S = 60.0  # a tuple that does not fit what a program wants is offered again
TUPLES = "program."  # before the names of a program's tuples: the engine has names of its own
TUPLES_S = 0.002  # between two looks at tuples


def program(
    args: Sequence[str | Path],
    start: Start,
    out: Segment,
    *,
    cwd: str | Path | None = None,
    stop_s: float = STOP_S,
    grace_s: float = GRACE_S,
) -> Generator[dict[str, Any], None, None]:
    """Run a program that calls steersman.h, and give its frames as it commits them, for `out.append(**frame)`.

    It runs as by `command`: in a session of its own, with its output in files of the working directory, and all that it
    started ends with this iterator. Its commit returns when the next frame is asked for here.

    Args:
        args: the program and its arguments, e.g. ["mpiexec", "-n", "4", "/home/me/heat"]; no shell.
        start, out: those of the simulate function: what the program asks for is in them.
        cwd: the working directory; None makes one and removes it afterwards.
        stop_s: so long after `out.stopped` the program is ended, if it has not ended by itself.
        grace_s: between asking (TERM) and killing (KILL).
    Raises:
        BadInput: the program cannot be started. BadValue: `args` is no list with a program.
        CommandFailed: it ended with another exit code than 0; the frames before that have been given.
        EngineError: it ended with 0, but without `steersman_close`, or with arrays that it had not committed; or a
            function that answers it kept what it was given.
    """
    calls, asked_at = _Calls(start, out), math.inf
    with directory(cwd) as folder, Line(_host()) as line:
        environment = {**os.environ, **line.environment}
        with started(args, folder, grace_s, environment=environment) as process:
            calls.ended = lambda: process.poll() is not None
            while True:
                over = calls.ended()  # before the look: what it said last is heard
                call = line.next(0.0 if over else LOOK_S if line.connected else AWAY_S)
                if call is None and over:
                    break
                if call is not None:
                    try:
                        if call.what == Do.COMMIT:
                            yield calls.frame(call.a)
                        _reply(line, call, calls.values(call))
                    except EngineError as refused:
                        line.answer(REFUSED, str(refused))
                    if call.kept():
                        raise EngineError(f"{call.name} kept an input, which is overwritten next: keep a copy of it")
                if out.stopped:
                    asked_at = min(asked_at, time.monotonic())
                    if time.monotonic() - asked_at > stop_s and not over:
                        stopped(args, process, grace_s, folder)
                        return
            if process.returncode:
                raise failed(args, process.returncode, folder)
            if not calls.closed:  # STOP of Fortran is 0, too, whatever the program stops for
                raise EngineError(f"{args[0]} ended with exit code 0 before it called steersman_close")


def _host() -> str | None:
    """The first node of this walker's ranks, where it is an MPI program; rank 0 may run there."""
    words = shlex.split(os.environ.get("PARSL_MPI_PREFIX", ""))
    lists = [hosts for word, hosts in itertools.pairwise(words) if word in ("-hosts", "--nodelist", "-node-list")]
    return lists[0].partition(",")[0] if lists else None


def _reply(line: Line, call: Request, values: Sequence[np.ndarray] | str) -> None:
    if isinstance(values, str):
        line.answer(NONE, values)
    else:
        line.give(call, values)


class _Calls:
    """What a program is told, and what it has told.

    Attributes:
        ended: the program has.
        closed: it has said that no more frames come.
    """

    def __init__(self, start: Start, out: Segment) -> None:
        self._start, self._out = start, out
        self.ended: Callable[[], bool] = lambda: False
        self.closed = True  # as long as it calls nothing
        self._first: dict[str, Item] = {}  # arrays of the first frame
        self._next: dict[str, Item] = {}  # of the next one
        self._frame: dict[str, Any] = {}
        self._state: dict[str, Any] = {}  # of the last, as far as it was told
        self._taken: dict[str, list[Any]] = {}  # tuples under a lease, by name

    def frame(self, time: float) -> dict[str, Any]:
        """The frame that is committed. Raises: BadInput: it lacks an array."""
        if lacks := [name for name in self._first if name not in self._next]:
            raise BadInput(f"this frame lacks {', '.join(lacks)}, which the first one has: append it before the commit")
        if not self._next:
            raise BadInput("nothing was appended: a frame has one array at least")
        self._first, self._next = self._next, {}
        frame, self._frame = {"time": time, **self._frame}, {}
        return frame

    def close(self) -> None:
        """No more frames come. Raises: BadInput: one was begun."""
        if self._next:
            raise BadInput(f"{', '.join(self._next)} was appended without a commit")
        self._keep()
        self.closed = True

    def values(self, call: Request) -> list[np.ndarray] | str:
        """What is wanted, in its order; or a sentence why there is none. Raises: EngineError: it is refused."""
        start, out, self.closed = self._start, self._out, False
        match call.what:
            case Do.CLOSE:
                self.close()
            case Do.SEED:
                return _of(call, {"seed": [out.seed, out.seed31]})
            case Do.PARAMETER:
                return _of(call, dict(start.params or ()), "parameter", "the workflow has no parameters")
            case Do.FRAME:
                return _of(call, start.frame, "variable in start.frame", "the prepared start has no frame")
            case Do.STATE:
                return _of(call, start.state, "variable in start.state", "this start has no state")
            case Do.DRAW:
                return _of(call, start.draw, "variable in start.draw", "nothing was drawn for this start")
            case Do.APPEND:
                self._append(*call.given[0])
            case Do.COMMIT:
                self._keep()
            case Do.STOPPED:
                return _of(call, {"stopped": int(out.stopped)})
            case Do.STATE_PUT:
                item, view = call.given[0]
                self._state[item.name] = view.tobytes() if item.kind == TEXT else item.value(view)
            case Do.ASK:
                return self._ask(call)
            case Do.PUT:
                self._space.put(TUPLES + call.name, *(_field(*each) for each in call.given))
            case Do.TAKE | Do.READ:
                return self._take(call)
            case Do.ACK:
                self._space.ack(self._taken.pop(call.name, []))
            case _:
                raise BadInput(f"call {call.what} is none that this walker knows: its client is newer")
        return []

    def _keep(self) -> None:
        """What was told of the state belongs to the newest frame."""
        self._out.state(**self._state)

    def _append(self, item: Item, view: np.ndarray) -> None:
        first = self._first.get(item.name, item)
        if self._first and item.name not in self._first:
            raise UnknownName("variable of the frames", item.name, self._first)
        if (item.kind, item.shape) != (first.kind, first.shape):
            raise BadValue(item.name, str(item), f"in the first frame it is {first}")
        if item.name in self._next or item.name == "time" or item.kind == TEXT:
            problem = "a frame has numbers, each name once, and its time from the commit"
            raise BadValue(item.name, str(item), problem)
        if not self._next:
            self._keep()
            self._state = {}
        self._next[item.name], self._frame[item.name] = item, item.value(view)

    def _ask(self, call: Request) -> list[np.ndarray] | str:
        workflow = self._out.workflow
        answers = Answers(workflow.answers if workflow else {})
        outputs = answers.ask(call.name, call.inputs(), self._start, self._out)
        return "there is no model yet" if outputs is None else _of(call, outputs, f"output of {call.name}")

    @property
    def _space(self) -> Any:
        if self._out.space is None:
            raise BadInput("there is no tuple space here: it is that of a run")
        return self._out.space

    def _take(self, call: Request) -> list[np.ndarray] | str:
        """The first tuple that has fields of these types; one of other shapes is offered again."""
        name, fields = TUPLES + call.name, [_kind(item) for item in call.wanted]
        until, lease_s = time.monotonic() + call.a, call.b or TAKEN_S
        while (tuple_ := self._now(call.what, name, fields, lease_s)) is None:
            if time.monotonic() >= until or self._out.stopped or self.ended():
                return f"there was no such tuple of {call.name} in {call.a:g} s, or the segment is to end"
            time.sleep(TUPLES_S)
        try:
            values = [item.fitted(value) for item, value in zip(call.wanted, tuple_[1:], strict=True)]
        except BadValue:
            if call.what == Do.TAKE:
                self._space.release(tuple_, "")
            raise
        if call.what == Do.TAKE and call.b:
            self._taken.setdefault(call.name, []).append(tuple_)
        elif call.what == Do.TAKE:
            self._space.ack(tuple_)
        return values

    def _now(self, what: int, name: str, fields: list[type], lease_s: float) -> Any:
        if what == Do.READ:
            return self._space.read_nowait(name, *fields)
        return self._space.take_nowait(name, *fields, lease_s=lease_s)


def _of(call: Request, values: Mapping[str, Any], what: str = "", none: str = "") -> list[np.ndarray] | str:
    """What is wanted of some values, by name; or a sentence why there is none.

    Raises: UnknownName: they have no such name. BadValue: another shape or type is wanted.
    """
    if not values and none:
        return none
    for item in call.wanted:
        if item.name not in values:
            raise UnknownName(what, item.name, values)
    return [item.fitted(values[item.name]) for item in call.wanted]


def _kind(item: Item) -> type:
    """Of a field of a tuple."""
    if item.kind == TEXT:
        return str
    kinds = {"b": bool, "i": int, "f": float}
    return np.ndarray if item.shape else kinds[np.dtype(TYPES[item.kind]).kind]


def _field(item: Item, view: np.ndarray) -> Any:
    value = item.value(view)
    return value if isinstance(value, str) or item.shape else value.item()
