"""Frames -> store: what a simulate function writes to, its `out`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from steersman.store import FRAME, RESTART_STATES, BadVariable
from steersman.store.errors import MASKED, shape_mismatch
from steersman.store.states import copied
from steersman.system.errors import BadValue

Shapes = dict[str, list[int]]  # of the variables of a frame

TAKEN = {"segment", "segments", "walker", "row", RESTART_STATES}  # what the engine says of frames and of segments

# A look at the bus costs 0.3 ms here and 0.05 ms of the server, which thousands of walkers share: so a segment that has
# run for long looks less often. It is stopped, and its frames reported, late by a tenth of that, within these bounds.
LOOK_SHARE, LOOK_AT_LEAST_S, LOOK_AT_MOST_S = 0.1, 0.05, 10.0
CLOCK = 1000.0  # times what a segment takes: its first frame is that far from its start by a clock alone
COUNTED = "it is to be counted from the segment's start"
PATIENCE_S = 60.0  # a segment that goes on for so long after it was asked to stop is ended at a frame


class Enough(BaseException):
    """Ends a segment that goes on though it was to stop; no `except Exception` of its author keeps it back."""


class Rows(Protocol):
    """What a segment asks of the group that it appends to."""

    rows: dict[str, int]
    missing: set[str]

    def names(self, dimension: str) -> set[str]: ...
    def check(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> None: ...
    def extend(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> Any: ...


class Segment:
    """One segment while it runs.

    Args:
        name: `<walker>.<number>`, the name that `why` and `tell` speak of.
        stop_asked: looks at the bus whether the segment is to end.
        until: seconds since 1970 when it is to end at the latest, for its block ends.
        trouble: why frames cannot be written any more, if so.
        like: (shapes of the first frame) -> a walker, and the shapes of its frames, which must be the same.
    Attributes:
        frames: frames appended so far.
        simulated: `time` of the newest frame.
        restart: the full restart state, a copy of what was given to `state`; empty where nothing was.
        seed_read: somebody read `seed`.
        cut: it was to end for its block ends, not because somebody asked.
        longest_s: longest time between two frames.
        space: the run's tuple space; None outside of one.
        workflow: that it is of, for `program`; None outside of one.
        repeats: all that it was told would be so again, bit for bit.
        newer: looks at the bus whether there is a newer model than that of the start.
    """

    space: Any = None
    workflow: Any = None
    repeats: bool = True
    newer: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(
        self,
        name: str,
        number: int,
        seed: int,
        writer: Rows,
        stop_asked: Callable[[], bool] = lambda: False,
        until: float = math.inf,
        trouble: Callable[[], Exception | None] = lambda: None,
        like: Callable[[Shapes], tuple[str, Shapes]] = lambda shapes: ("", shapes),
    ) -> None:
        self.name, self.number, self._seed, self.seed_read = name, number, seed, False
        self.first_row = writer.rows.get(FRAME, 0)
        self.frames = 0
        self.simulated = 0.0
        self.restart: dict[str, np.ndarray | bytes] = {}
        self.asked: list[int] = []  # its frames whose labels it asks for
        self.was_stopped = self.cut = False
        self.longest_s = 0.0
        self._writer, self._stop_asked, self._until, self._trouble = writer, stop_asked, until, trouble
        self._like = like
        self._began_at = self._looked_at = self._appended_at = time.monotonic()
        self._asked_at, self._block_ends = math.inf, False
        self._model_looked_at, self._outdated = -math.inf, False

    @property
    def seed(self) -> int:
        """63-bit seed; the segment is to be a function of its start and this, or of `seed31`."""
        self.seed_read = True
        return self._seed

    @property
    def seed31(self) -> int:
        """The same for programs that take no more than an int, as LAMMPS and GROMACS do: in 1..2^31-1."""
        return 1 + self.seed % (2**31 - 1)

    def append(self, *unnamed: Any, **variables: Any) -> None:
        """Append one frame, each variable by its name.

        `time`, when given, is the simulated time since the segment's start, which never decreases.

        Raises: BadVariable: a variable has another shape than in the run's first frames. BadVariable: infinity, or
            NaN of what cannot be missing, see `Variable`. BadVariable: a value without a name, other variables than in
            the first frame, values that are no numbers, or a time that is negative or smaller than the frame's before
            it. OSError: frames cannot be written, e.g. because the disk is full. Enough: the segment was asked to stop
            long ago; it is stored.
        """
        if trouble := self._trouble():
            raise trouble
        if unnamed:
            raise BadVariable(
                f"{unnamed[0]!r:.60}", "it has no name: write out.append(time=t, x=x), with a name for each variable"
            )
        for name in TAKEN.intersection(variables):
            raise BadVariable(name, "the engine uses this name for its own data; choose another")
        known = self._writer.names(FRAME)
        if known and (odd := known ^ {*variables, "segment"}):
            raise BadVariable(min(odd), "some frames have it and others have not; all must have the same variables")
        for name, value in variables.items():
            if np.ma.is_masked(value):
                raise BadVariable(name, MASKED)
            try:
                finite = np.isfinite(value) | (np.isnan(value) & (name in self._writer.missing) & (name != "time"))
            except (TypeError, ValueError):  # of an object; of rows of unequal lengths
                problem = f"{value!r:.60} is no number of 64 bits, boolean or array of them"
                dtype = str(getattr(value, "dtype", ""))
                if dtype == "object":
                    problem = "its dtype is object, which holds anything; give numbers, e.g. value.astype(float)"
                elif dtype.endswith("bfloat16"):
                    problem = "its dtype is bfloat16, which numpy has not; give value.float()"
                raise BadVariable(name, problem) from None
            if not finite.all():
                kept = f"not finite in frame {self.frames} of this segment; the frames before it are kept"
                raise BadVariable(name, f"{kept}. Where NaN means that there is no value: Variable(..., missing=True)")
        if np.ndim(given := variables.get("time", 0.0)) or np.asarray(given).dtype.kind not in "biuf":
            problem = f"it is {given!r:.60}; it must be one number, the simulated time since the segment's start"
            raise BadVariable("time", f"{problem}; a date may have another name")
        time_now = float(variables.get("time", self.simulated))
        if time_now < self.simulated:
            raise BadVariable(
                "time", f"it is {time_now:g} after {self.simulated:g}; it is counted from the segment's start"
            )
        if "time" in variables and np.asarray(given).dtype.kind == "f":
            variables["time"] = time_now  # in double precision: later times of a long segment may need it
        frame = {name: np.asarray(value)[None] for name, value in variables.items()}
        if not self.frames:
            self._writer.check(FRAME, frame)
            shapes = {name: list(block.shape[1:]) for name, block in frame.items()}
            _check_like(shapes, *self._like(shapes))
        self._writer.extend(FRAME, {**frame, "segment": np.array([self.number], np.int32)})
        self.frames += 1
        now = time.monotonic()
        self.longest_s, self._appended_at = max(self.longest_s, now - self._appended_at), now
        self.simulated = time_now
        self._look()
        if now - self._asked_at > PATIENCE_S:
            self.was_stopped, self.cut = True, self._block_ends
            self.restart = {}  # of an earlier frame, perhaps
            raise Enough

    def label(self) -> None:
        """Ask for the label of the frame that was appended last, before those that a rule chooses.

        Raises: BadValue: there is no frame yet.
        """
        if not self.frames:
            raise BadValue("out.label()", None, "append a frame first: its label is asked for")
        self.asked.append(self.frames - 1)

    def fail(self, error: Exception) -> None:
        """End this segment as failed. In a batch (`@wf.simulate(batch=...)`) the others go on."""
        raise error

    def state(self, **variables: Any) -> None:
        """Keep what is needed, beside the last frame, to continue this segment exactly, e.g. velocities.

        It takes the place of what was given before in this segment.

        Args:
            variables: numbers, arrays of any shape, or bytes of any length, as of a checkpoint file. They are copied.
        Raises: BadVariable: something else.
        """
        self.restart = {name: copied(name, value) for name, value in variables.items()}

    @property
    def stopped(self) -> bool:
        """Whether this segment is to end; a simulate function looks after each frame."""
        self._look()
        self.was_stopped, self.cut = math.isfinite(self._asked_at), self._block_ends
        return self.was_stopped

    @property
    def outdated(self) -> bool:
        """Whether a model was accepted that is newer than `start.model`. A segment that takes hours may end then: the
        one that goes on from its state has the newest model."""
        now = time.monotonic()
        if not self._outdated and now - self._model_looked_at >= look_every_s(now - self._began_at):
            self._model_looked_at, self._outdated = now, self.newer()
        return self._outdated

    def _look(self) -> None:
        now = time.monotonic()
        if math.isinf(self._asked_at) and now - self._looked_at >= look_every_s(now - self._began_at):
            self._looked_at = now
            self._block_ends = time.time() >= self._until
            if self._block_ends or self._stop_asked():
                self._asked_at = now


def _check_like(shapes: Shapes, walker: str, others: Shapes) -> None:
    """Raises: BadVariable: another walker's frames have other variables, or other shapes."""
    if odd := others.keys() ^ shapes.keys():
        raise BadVariable(
            min(odd), "frames of some walkers have it and others have not; all must have the same variables"
        )
    for name, shape in others.items():
        if shape != shapes[name]:
            raise shape_mismatch(name, f"shape {tuple(shape)} (of {walker})", f"shape {tuple(shapes[name])}")


def miscounted(times: np.ndarray, before: float, first: float) -> str:
    """Why the times of a segment's frames are not counted from its start, or "": from the prepared start, or a clock's.

    Args:
        times: (frames,) of the segment.
        before: time of the frame that it was started from, in that frame's segment; 0 at the prepared start.
        first: time of the first frame of a segment that began at the prepared start.
    """
    times = np.asarray(times, np.float64)
    if len(times) > 1 and times[0] > CLOCK * np.ptp(times) > 0:
        return f"its first frame is at time {times[0]:g}, the others follow within {np.ptp(times):g}: {COUNTED}"
    if len(times) and before > 0 and math.isclose(times[0], before + first):
        return f"its time goes on, {times[0]:g} after {before:g}: {COUNTED}"
    return ""


def look_every_s(ran_s: float) -> float:
    """How often it is worth a look at a segment that has run for so long."""
    return min(max(LOOK_SHARE * ran_s, LOOK_AT_LEAST_S), LOOK_AT_MOST_S)
