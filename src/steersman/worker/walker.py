"""Starts -> segments: one slot takes starts from the bus and runs segment after segment, its simulation kept warm.

A start is taken under a lease and acknowledged when its frames are published: what a lost walker had not published is
run again by another, and nothing is run twice otherwise.
"""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from steersman.bus import BusError, BusTimeout, Tuple, TupleSpace
from steersman.journal.records import BadRecord, Began, Ended, Joined, checked
from steersman.journal.records import Start as Order
from steersman.stages.batch import OfBatch, Waiting
from steersman.stages.modules import explained
from steersman.stages.segment import Enough, Segment, Shapes
from steersman.stages.start import LOOKED, NoFrame, Start, StoredFrame
from steersman.store import (
    ENDED,
    FRAME,
    RESTART_STATES,
    SEGMENT,
    SEGMENT_FIELDS,
    BadVariable,
    Frames,
    GroupWriter,
    ScratchWriter,
    Variable,
    states,
)
from steersman.store.names import walker_name
from steersman.store.variables import CONVENTIONS
from steersman.system import random_numbers
from steersman.system.errors import told
from steersman.system.files import shorten
from steersman.system.processes import children_end
from steersman.system.random_numbers import drawing
from steersman.worker.orders import DONE, HANGS, LEAVE, LIKE, NEWEST, refuse, stop_name
from steersman.worker.publisher import Held, Outbox, Publisher
from steersman.worker.watchdog import Watchdog

DISMISSED, BLOCK_ENDS = "dismissed", "its block ends"  # why a walker went home; or the engine asked it to:
ASIDE, REPLACED = "its node is set aside", "it failed again and again"
LEASE_S = 15.0  # a lost walker's starts come back after this; renewed well before
AWAY_S = 0.1  # between two tries while the server is away
STDERR_TAIL = 4000  # bytes kept of what a failed segment wrote
MOST_PRINTED = 2**24  # bytes of standard output, and of standard error
MOST_CAUSE = 2000  # characters of a cause that are sent; the whole traceback lies in errors/
MOST_CAUSES = 20  # files in errors/ of one walker
FAILING_S, MOST_FAILING_S = 0.1, 10.0  # between two segments of a walker that fails: twice as long each time

OWN = {  # what the engine stores of each frame, and of each ended segment
    "segment": Variable((), "1", "number of the segment that made the frame"),
    "segments": Variable(("segment_field",), "1", "table of the ended segments, see the attribute segment_fields"),
    RESTART_STATES: states.MEANING,
}

Simulate = Callable[..., None]


@dataclass
class _Run:
    """A segment from its start to its end.

    Attributes:
        error: why it failed.
    """

    held: Held
    order: Order
    out: Segment
    group: GroupWriter | Waiting
    start: Start | None = None
    error: BaseException | None = None

    def write(self) -> None:
        """Write the rows that a member of a batch appended, also if it failed after them."""
        assert isinstance(self.out, OfBatch)
        assert isinstance(self.group, Waiting)
        self.error = self.error or self.out.error
        try:
            self.group.pour()
        except BadVariable as error:
            self.error = self.error or error
            self.out.frames = 0


@dataclass
class WalkerProcess:
    """One slot at work.

    Args:
        number: names the walker `w<number>`, its group and its segments; unique in a run.
        bag: name of the tuples it takes starts from.
        simulate: the workflow's function (params, start, out).
        prepared: what the workflow's prepare function returned.
        frames: the run's frames; the walker writes its own group there.
        variables: meaning of the stored variables.
        attributes: attributes of its group (parameters, seed, versions).
        errors: folder for the causes of failed segments.
        scratch: folder on the node's own storage that its group grows in, None where it grows among the run's frames.
        stdout, stderr: files that what the process prints goes to, None when it is not caught. Between two segments
            they are shortened.
        place: where it runs, for the engine: node, pool, block_ends.
        margin_s: before its block ends, this much is kept for writing what there is.
        lease_s: how long a start is its own without a sign of life.
        watchdog: hears of it while there is progress, or nothing to do.
        with_settings: (parameters, what a person changed) -> parameters.
        learned: gives what `Start` has of what was learned, by the record of its start.
        batch: `simulate` takes lists, of so many starts at most; 0: one.
    """

    number: int
    bag: str
    simulate: Simulate
    params: Any
    prepared: Any
    frames: Frames
    space: TupleSpace
    variables: dict[str, Variable]
    attributes: dict[str, Any]
    errors: Path
    scratch: Path | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    place: dict[str, Any] = field(default_factory=dict)
    margin_s: float = 0.0
    lease_s: float = LEASE_S
    watchdog: Watchdog = field(default_factory=Watchdog)
    with_settings: Callable[[Any, dict[str, Any]], Any] = lambda params, _: params
    learned: Callable[[Order], dict[str, Any]] = lambda order: {}
    batch: int = 0
    _longest_s: float = 0.0
    _segments: int = 0
    _failures: int = 0  # in a row
    _compared: bool = False  # frames of this segment with the run's first
    _agrees: bool = False  # they were like them
    _out: Segment | None = None  # the segment that runs, or ran last
    _causes: list[str] = field(default_factory=list)  # failed segments whose files are there
    _dismissed: bool = False

    def run(self) -> str:
        """Run segments until the engine says that no more will come, or the block ends; returns which of them."""
        self._writer = self._new_group()
        self._outbox = Outbox(self.space)
        self._publisher = Publisher(
            self._writer, self.space, self._outbox, self.number,
            came=self._came, lease_s=self.lease_s, watchdog=self.watchdog,
        )  # fmt: skip
        self._outbox.add(Joined(walker=self.number, **self.place))
        self._outbox.send()
        with self._publisher:
            idle_since = time.monotonic()
            while not isinstance(taken := self._next_start(), str):
                waited_s = time.monotonic() - idle_since
                failed = self._run_segments([taken, *self._more(taken[1])], waited_s)
                idle_since = time.monotonic()
                self._failures = self._failures + 1 if failed else 0
                if failed and (why := self._is_to_leave()):
                    return why
        return taken

    @property
    def name(self) -> str:
        return walker_name(self.number)

    def _new_group(self) -> GroupWriter:
        path, attributes = self.frames.path / self.name, self.attributes | _table_attributes()
        variables = OWN | self.variables
        if self.scratch is None:
            return GroupWriter(path, variables=variables, attributes=attributes)
        return ScratchWriter(path, self.scratch, variables=variables, attributes=attributes)

    @property
    def _until(self) -> float:
        """When a segment is to end at the latest, seconds since 1970."""
        ends = self.place.get("block_ends")
        return math.inf if ends is None else ends - self.margin_s

    def _came(self) -> tuple[int, float]:
        """The segment that runs, and how far it has come in simulated time."""
        return (self._out.number, self._out.simulated) if self._out else (0, 0.0)

    def _like(self, shapes: Shapes) -> tuple[str, Shapes]:
        """What all frames of the run are like: those of the walker that had the first, which this may be."""
        if not self._agrees:
            with contextlib.suppress(BusError):  # the next segment asks
                self.space.put(LIKE, self.name, shapes, once=LIKE)
                first = self.space.read_nowait(LIKE, str, dict)
                self._compared = True
                return (first[1], first[2]) if first else (self.name, shapes)
        return self.name, shapes

    def _next_start(self) -> tuple[Tuple, Order] | str:
        """Take a start; or say why there is no next one."""
        while time.time() + self._longest_s < self._until:  # a segment that cannot make a frame does not begin
            if self._publisher.trouble:
                raise self._publisher.trouble
            try:
                order = None
                taken = None if self._dismissed else self._taken()
                if taken is None and not self._dismissed:
                    self._outbox.send()
                    self._publisher.hurry()  # nothing to do but wait: let others see what there is
                    wait_s = min(5.0, max(0.0, self._until - time.time()))
                    taken = self._taken(wait_s)
                if taken is not None and (order := self._wanted(taken)) is not None:
                    return taken, order
                if self._dismissed:
                    return DISMISSED
            except BusTimeout:
                continue
            except BusError:  # the server may be away for a moment: the engine brings it back
                time.sleep(AWAY_S)
        return BLOCK_ENDS

    def _more(self, first: Order) -> list[tuple[Tuple, Order]]:
        """The other starts of a batch: those that wait, as long as they run with the same parameters."""
        orders = list[tuple[Tuple, Order]]()
        with contextlib.suppress(BusError):
            while len(orders) + 1 < self.batch and not self._dismissed and (taken := self._taken()) is not None:
                order = self._wanted(taken)
                if order is not None and order.set != first.set:
                    self.space.release(taken, "")
                    break
                orders += [(taken, order)] if order is not None else []
        return orders

    def _taken(self, wait_s: float | None = None) -> Tuple | None:
        """A tuple of the bag, now or within a time. Raises: BusTimeout. BusError."""
        template = (self.bag, int, dict)
        if wait_s is None:
            return self.space.take_nowait(*template, lease_s=self.lease_s)
        return self.space.take(*template, timeout_s=wait_s, lease_s=self.lease_s)

    def _wanted(self, taken: Tuple) -> Order | None:
        """What is to be run; None of what is no start, was settled meanwhile, or sends the walker home: it is gone."""
        order = self._read(taken)
        if order is not None and not self._is_done(taken):
            return order
        self.space.ack(taken)
        if taken.deliveries > 1:
            self.space.take_nowait(DONE, taken[1])  # nobody gets the start again
        self._dismissed = taken[2].get("end") is True
        return None

    def _read(self, taken: Tuple) -> Order | None:
        """What is to be run; None for a word to go home, or for what is no start, which goes to the dead letters."""
        _, number, fields = taken
        if fields.get("end") is True:
            return None
        try:
            order = checked("start", fields, {"start": Order})
        except BadRecord:
            order = None
        if not isinstance(order, Order) or order.start != number:
            refuse(self.space, self.bag, number, fields)
            return None
        return order

    def _is_done(self, taken: Tuple) -> bool:
        """Whether a start that came back by its lease was settled meanwhile."""
        return taken.deliveries > 1 and self.space.read_nowait(DONE, taken[1]) is not None

    def _is_to_leave(self) -> str:
        """Why the engine wants this walker to go home, or ""; one that fails again and again waits for its word."""
        self._outbox.send()
        wait_s = min(FAILING_S * 2.0 ** (self._failures - 1), MOST_FAILING_S)
        with contextlib.suppress(BusError):
            word = self.space.take(LEAVE, self.number, str, timeout_s=wait_s if self._failures > 1 else 0.0)
            return str(word[2])
        return ""

    def _run_segments(self, taken: list[tuple[Tuple, Order]], waited_s: float) -> bool:
        """Run one segment, or a batch of them at once; returns whether all failed.

        Raises: OSError: frames cannot be written, which is no fault of a start.
        """
        runs = [self._prepare(*each) for each in taken]
        self._begin(runs[0], waited_s)
        self._outbox.send()  # with the end of the one before; it is to be known if it kills this process
        for printed in filter(None, (self.stdout, self.stderr)):
            shorten(printed, MOST_PRINTED)
        stderr_from = self.stderr.stat().st_size if self.stderr else 0
        began, self._compared = time.monotonic(), False
        read_s = self._simulate(runs)
        ran_s = max(0.0, time.monotonic() - began - read_s)
        for run in runs:
            if run is not runs[0]:
                self._begin(run, 0.0)
            if isinstance(run.out, OfBatch):
                run.write()
            self._end(run, stderr_from, waited_s if run is runs[0] else 0.0, read_s / len(runs), ran_s / len(runs))
        return all(run.error for run in runs)

    def _prepare(self, taken: Tuple, order: Order) -> _Run:
        held, number, self._segments = self._publisher.hold(taken), self._segments, self._segments + 1
        name, group = f"{self.name}.{number}", Waiting(self._writer) if self.batch else self._writer
        out = (OfBatch if self.batch else Segment)(
            name, number, order.seed, group, lambda: self._stop_asked(name), self._until,
            lambda: self._publisher.trouble, self._like,
        )  # fmt: skip
        out.space, out.newer = self.space, lambda: self._newest() > order.with_model
        return _Run(held, order, out, group)

    def _begin(self, run: _Run, waited_s: float) -> None:
        """Say that a segment begins."""
        self._out, out, start = run.out, run.out, run.order.start
        out.first_row = self._writer.rows.get(FRAME, 0)
        self._writer.attributes["running"] = [out.number, start, out.first_row]  # published with its first frames
        self._outbox.add(
            Began(walker=self.number, segment=out.number, start=start, first_row=out.first_row, waited_s=waited_s)
        )

    def _simulate(self, runs: list[_Run]) -> float:
        """Call the workflow's function for all; returns how long it took to read their starts."""
        first, began, read_s = runs[0], time.monotonic(), 0.0
        try:
            with children_end():
                ready = [(run, start) for run in runs if (start := self._start_of(run)) is not None]
                read_s = time.monotonic() - began
                if not ready:
                    return read_s
                with drawing(first.order.seed):
                    random = random_numbers.states() if first.out.number == 0 else b""
                    params = self.with_settings(self.params, dict(first.order.set))
                    starts, outs = [start for _, start in ready], [run.out for run, _ in ready]
                    self.simulate(params, *((starts, outs) if self.batch else (starts[0], outs[0])))
                    if first.out.number == 0:
                        drew = first.out.seed_read or random_numbers.states() != random
                        self._writer.attributes["drew"] = int(drew)  # NetCDF has no booleans
        except Enough:  # its frames count, and how it went on from there is not known
            pass
        except (Exception, SystemExit) as error:  # a user's simulation may raise anything: the slot goes on
            if self._publisher.trouble:  # whatever the function made of it
                raise self._publisher.trouble from None
            for run in runs:
                run.error = run.error or error
        return read_s

    def _start_of(self, run: _Run) -> Start | None:
        """None where it cannot be read: that segment has failed."""
        try:
            run.start = self._read_start(run.order)
            return run.start
        except Exception as error:
            if self._publisher.trouble:
                raise
            run.error = error
            return None

    def _end(self, run: _Run, stderr_from: int, waited_s: float, read_s: float, ran_s: float) -> None:
        out, order, cause = run.out, run.order, ""
        if run.error is not None:
            cause = _readable(self._cause(run.error)[:MOST_CAUSE])
            self._keep_cause(out.name, order, stderr_from, "".join(traceback.format_exception(run.error)))
        elif out.was_stopped and (cause := self._hung(out)):
            self._keep_cause(out.name, order, stderr_from, cause)
            run.error = TimeoutError(cause)
        how = "failed" if cause else "stopped" if out.was_stopped else "finished"
        self._longest_s = max(self._longest_s, out.longest_s)
        self._agrees |= self._compared and out.frames > 0
        cut = ("state" if out.restart else "frame") if out.cut else ""
        self._outbox.add(Ended(
            walker=self.number, segment=out.number, start=order.start, how=how, cause=cause, first_row=out.first_row,
            end_row=out.first_row + out.frames, simulated=out.simulated, read_s=read_s, waited_s=waited_s,
            ran_s=ran_s, cut=cut, state=bool(out.restart), repeats=out.repeats,
            asks=tuple(out.first_row + at for at in dict.fromkeys(out.asked)),
        ))  # fmt: skip
        self._close_segment(run, how)
        self._publisher.release_when_published(run.held)

    def _read_start(self, order: Order) -> Start:
        draw = {name: np.asarray(value, np.float64) for name, value in order.draw.items()}
        learned = self.learned(order)
        if order.parent is None:
            return Start(self.prepared, self._watched(NoFrame()), draw=draw, **learned)
        walker, row, segment = order.parent
        frame = self.frames.row(walker_name(walker), row)
        state = self.frames.state(walker_name(walker), segment) if order.exact else {}
        return Start(self.prepared, frame if state else self._watched(frame), state, draw, **learned)

    def _watched(self, frame: Mapping[str, np.ndarray]) -> StoredFrame:
        """The frame of a start without a state; the group says whether anybody looks at it."""
        attributes = self._writer.attributes
        if attributes["unread_from"] is None:
            attributes["unread_from"] = self._writer.rows.get(FRAME, 0)
        return StoredFrame(frame, lambda: attributes.update(unread_from=LOOKED))

    def _close_segment(self, run: _Run, how: str) -> None:
        out, order = run.out, run.order
        # A model that nobody looked at changed nothing.
        alike = order if run.start and "model" in vars(run.start) else replace(order, with_model=0)
        walker, row = order.parent[:2] if order.parent else (-1, -1)
        end, state = out.first_row + out.frames, states.packed(out.restart)
        fields = {
            "number": out.number, "start": order.start, "parent_walker": walker, "parent_row": row, "seed": order.seed,
            "model": order.model, "first_row": out.first_row, "end_row": end, "ended": ENDED.index(how),
            "state_row": -1, "state_bytes": len(state), "exact": order.exact, "conditions": alike.conditions,
            "repeats": out.repeats,
        }  # fmt: skip
        if state:
            rows = {RESTART_STATES: states.as_rows(state)}
            fields["state_row"] = self._writer.extend(states.RESTART, rows)
        table_row = np.array([fields[name] for name in SEGMENT_FIELDS], dtype=np.int64)
        self._writer.append(SEGMENT, {"segments": table_row})

    def _stop_asked(self, segment: str) -> bool:
        if self._publisher.trouble:
            return True
        with contextlib.suppress(BusError):
            return self.space.take_nowait(stop_name(segment), segment) is not None
        return False

    def _newest(self) -> int:
        """Version of the newest accepted model; 0 where there is none, or the bus is away."""
        with contextlib.suppress(BusError):
            if word := self.space.read_nowait(NEWEST, int):
                return int(word[1])
        return 0

    def _cause(self, error: BaseException) -> str:
        """In words; an error about None of a function that reads `prepared` has its reason in what there is not."""
        cause = told(error)
        theirs = list(traceback.walk_tb(error.__traceback__))[1:]  # the first is ours
        reads = any("prepared" in frame.f_code.co_names for frame, _ in theirs)
        if self.prepared is None and reads and "NoneType" in cause:
            cause += "; start.prepared is None: the file has no @wf.prepare, or one that returns None"
        return explained(cause, self.errors.parent)

    def _hung(self, out: Segment) -> str:
        """Why a segment that was asked to stop has failed: it made no frame since it was found to hang."""
        with contextlib.suppress(BusError):
            word = self.space.take_nowait(HANGS, out.name, int, str)
            if word is not None and out.first_row + out.frames <= word[2]:
                return str(word[3])
        return ""

    def _keep_cause(self, name: str, order: Order, stderr_from: int, said: str) -> None:
        tail = ""
        if self.stderr:
            with self.stderr.open("rb") as file:
                file.seek(max(stderr_from, self.stderr.stat().st_size - STDERR_TAIL))
                tail = file.read().decode(errors="replace")
        text = f"segment {name}, start {order}\n\n{said}\nstandard error:\n{tail}"
        self.errors.mkdir(exist_ok=True)
        (self.errors / f"{name}.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        self._causes.append(name)
        if len(self._causes) > MOST_CAUSES:  # the first one is worth most, and the newest
            (self.errors / f"{self._causes.pop(1)}.txt").unlink(missing_ok=True)


def _readable(text: str) -> str:
    """Half a character, from a file's name that is no text, say, does not travel."""
    return text.encode(errors="backslashreplace").decode()


def _table_attributes() -> dict[str, Any]:
    """`coordinates` is CF's word for what xarray shows beside the data, and groups by."""
    return {
        "Conventions": CONVENTIONS, "coordinates": "time segment",
        "segment_fields": list(SEGMENT_FIELDS), "segment_ended": list(ENDED), "running": None,
        "unread_from": None,
    }  # fmt: skip
