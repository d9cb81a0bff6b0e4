"""A piece of work -> its job: begun, begun again when its worker was lost, given up when it does not come back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from steersman.engine.jobs import lost
from steersman.system.errors import told
from steersman.worker.errors import BlockEnds

LOST_S = 60.0  # a job that Parsl lost is given up so long after its worker must have ended
LATER_S = 2.0  # until work that its block had no time for is tried again


class Work:
    """A job that may be begun several times.

    Args:
        what: the work in words, for notes.
        submit: hands it to an executor.
        note: writes something down for people.
        losses: workers that may be lost under it; the next loss is its own fault.
        hang_s: after so long its worker has ended itself; what has not come back long after that is given up.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        what: str,
        submit: Callable[[], Future[Any]],
        note: Callable[[str], None],
        *,
        losses: int = 3,
        hang_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._submit, self._note, self._losses, self._clock = what, submit, note, losses, clock
        self._hang_s, self._given_up_s = hang_s, 2 * hang_s + LOST_S
        self._job: Future[Any] | None = None
        self._begun = self._not_before = -math.inf
        self._put_off = False

    @property
    def ran_s(self) -> float:
        """How long its job has been under way."""
        return self._clock() - self._begun

    def advance(self) -> Future[Any] | None:
        """Begin it where it is due; returns its job once that ended and will not begin again."""
        if self._job is None:
            if self._clock() >= self._not_before:
                self._job, self._begun = self._submit(), self._clock()
            return None
        if not self._job.done():
            if self.ran_s > self._given_up_s:
                self._again("it did not come back", 0.0)
            return None
        error = self._job.exception()
        if error and lost(error) and self._losses and self.ran_s < self._hang_s:  # else it hung, and would again
            self._losses -= 1
            self._again(told(error), 0.0)
            return None
        if isinstance(error, BlockEnds):
            self._again("" if self._put_off else told(error), LATER_S)
            self._put_off = True
            return None
        return self._job

    def _again(self, why: str, later_s: float) -> None:
        self._job, self._not_before = None, self._clock() + later_s
        if why:
            self._note(f"{self._what} begins again: {why}")
