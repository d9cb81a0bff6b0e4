"""Frames -> store: what a simulate function writes to, its `out`."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from steersman.store import FRAME, GroupWriter, StoreError


class NotFinite(StoreError, ArithmeticError):
    """A frame that holds NaN or infinity: it is not stored, and its segment ends."""

    def __init__(self, variable: str, frame: int) -> None:
        super().__init__(variable, frame)
        self.variable, self.frame = variable, frame

    def __str__(self) -> str:
        return f"frame {self.frame} of this segment: {self.variable} is not finite; the frames before it are kept"


class Segment:
    """One segment while it runs.

    Args:
        name: `<walker>.<number>`, the name that `why` and `tell` speak of.
        seed: 63-bit seed; the segment is to be a function of its start and this.
        until: seconds since 1970 when it is to end at the latest, for its block ends.
    Attributes:
        frames: frames appended so far.
        simulated: `time` of the newest frame.
        restart: the full restart state, as given to `state`.
        to_end: somebody asked it to end; set by the thread that looks at the bus.
        cut: it was to end for its block ends, not because somebody asked.
        longest_s: longest time between two frames.
    """

    def __init__(
        self,
        name: str,
        number: int,
        seed: int,
        writer: GroupWriter,
        until: float = math.inf,
    ) -> None:
        self.name, self.number, self.seed = name, number, seed
        self.first_row = writer.rows.get(FRAME, 0)
        self.frames = 0
        self.simulated = 0.0
        self.restart: dict[str, Any] = {}
        self.to_end = self.was_stopped = self.cut = False
        self.longest_s = 0.0
        self._writer, self._until = writer, until
        self._appended_at = time.monotonic()

    def append(self, **variables: Any) -> None:
        """Append one frame; `time`, when given, is the simulated time since the segment's start.

        Raises: ShapeMismatch: a variable has another shape than in the run's first frame. NotFinite: NaN or infinity.
        """
        for name, value in variables.items():
            if not np.isfinite(value).all():
                raise NotFinite(name, self.frames)
        self._writer.append(FRAME, {**variables, "segment": np.int32(self.number)})
        self.frames += 1
        now = time.monotonic()
        self.longest_s, self._appended_at = max(self.longest_s, now - self._appended_at), now
        self.simulated = float(variables.get("time", 0.0))

    def state(self, **variables: Any) -> None:
        """Keep what is needed, beside the last frame, to continue this segment exactly, e.g. velocities."""
        self.restart = variables

    @property
    def stopped(self) -> bool:
        """Whether this segment is to end; a simulate function looks after each frame."""
        if not self.was_stopped:
            self.cut = time.time() >= self._until
            self.was_stopped = self.cut or self.to_end
        return self.was_stopped
