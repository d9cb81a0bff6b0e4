"""What people asked of a run, as far as it stands: that it pauses, what it starts from, its parameters, its end."""

from __future__ import annotations

import math
from typing import Any

from steersman.journal.records import Tell


class Wishes:
    """What people asked of a run.

    Attributes:
        paused: who paused the run; None: nobody, or it was continued.
        paused_hours: wall time of pauses that are over.
        paused_at: hours of the run when the last pause began.
        pins: frames that are to be started from next.
        settings: parameters that were changed while the run went on.
        finish: who wants the run to finish.
    """

    def __init__(self) -> None:
        self.paused: Tell | None = None
        self.paused_hours = self.paused_at = 0.0
        self._over: list[tuple[float, float]] = []
        self.pins: list[Tell] = []
        self.settings: dict[str, Any] = {}
        self.finish = ""

    def pause(self, record: Tell, hours: float) -> None:
        """The run pauses or continues, when its wall time is so many hours."""
        if self.paused:
            self.paused_hours += hours - self.paused_at
            self._over.append((self.paused.t, record.t))
        self.paused, self.paused_at = record if record.verb == "pause" else None, hours

    def pinned(self, pin: str) -> None:
        """A start was made of one."""
        self.pins = [each for each in self.pins if each.id != pin]

    @property
    def pauses(self) -> list[tuple[float, float]]:
        """From when to when people had paused the run, in seconds since 1970; infinity: it still is."""
        return [*self._over, *([(self.paused.t, math.inf)] if self.paused else [])]

    def paused_s(self, begin: float, end: float) -> float:
        """How many seconds between two moments the run was paused."""
        if not self._over and not self.paused:  # as most are, and a run asks this a million times
            return 0.0
        return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in self.pauses)
