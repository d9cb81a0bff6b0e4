"""How fast a run goes on of late: not as on average where it became slower, or was given other parameters."""

from __future__ import annotations

import math
from bisect import bisect

from steersman.steering import Progress

SPACING_S, PARTS = 5.0, 64  # between marks, at least; they are as many as some hundred, however long a run is
WINDOW_H = 120.0 / 3600


class Pace:
    """What was done by marks of its way; `hours` are those in which the run was not paused.

    Attributes:
        due: when the next mark is, in seconds since 1970.
    """

    def __init__(self) -> None:
        self._marks = [Progress()]
        self._since, self.due = 0.0, -math.inf

    def begin(self, t: float, done: Progress) -> None:
        """What was before says nothing of what follows: a session begins, or parameters were changed."""
        self._marks, self._since = [], t
        self.mark(t, done)

    def mark(self, t: float, done: Progress) -> None:
        self._marks.append(done)
        self.due = t + max(SPACING_S, (t - self._since) / PARTS)

    def lately(self, done: Progress) -> Progress:
        """What was done in the later half of the time since the beginning, or in two minutes where that is less."""
        since = done.hours - max(WINDOW_H, (done.hours - self._marks[0].hours) / 2)
        mark = self._marks[max(0, bisect(self._marks, since, key=lambda mark: mark.hours) - 1)]
        return Progress(done.frames - mark.frames, done.simulated_s - mark.simulated_s, done.hours - mark.hours)
