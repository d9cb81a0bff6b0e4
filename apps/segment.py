"""Frames -> store: what a simulate function writes to, its `out`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from steersman.store import FRAME, GroupWriter

ASK_EVERY_S = 0.05  # a look at the bus costs 0.1 ms; a segment is stopped at most this much late


class Segment:
    """One segment while it runs.

    Args:
        name: `<walker>.<number>`, the name that `why` and `tell` speak of.
        seed: 63-bit seed; the segment is to be a function of its start and this.
        stop_asked: looks at the bus whether the segment is to end.
    Attributes:
        frames: frames appended so far.
        simulated: `time` of the newest frame.
        restart: the full restart state, as given to `state`.
    """

    def __init__(
        self, name: str, number: int, seed: int, writer: GroupWriter, stop_asked: Callable[[], bool] = lambda: False
    ) -> None:
        self.name, self.number, self.seed = name, number, seed
        self.first_row = writer.rows.get(FRAME, 0)
        self.frames = 0
        self.simulated = 0.0
        self.restart: dict[str, Any] = {}
        self.was_stopped = False
        self._writer, self._stop_asked = writer, stop_asked
        self._asked_at = time.monotonic()

    def append(self, **variables: Any) -> None:
        """Append one frame; `time`, when given, is the simulated time since the segment's start.

        Raises: ShapeMismatch: a variable has another shape than in the run's first frame.
        """
        self._writer.append(FRAME, {**variables, "segment": np.int32(self.number)})
        self.frames += 1
        self.simulated = float(variables.get("time", 0.0))

    def state(self, **variables: Any) -> None:
        """Keep what is needed, beside the last frame, to continue this segment exactly, e.g. velocities."""
        self.restart = variables

    @property
    def stopped(self) -> bool:
        """Whether somebody asked this segment to end; a simulate function looks after each frame."""
        if not self.was_stopped and time.monotonic() - self._asked_at >= ASK_EVERY_S:
            self._asked_at = time.monotonic()
            self.was_stopped = self._stop_asked()
        return self.was_stopped
