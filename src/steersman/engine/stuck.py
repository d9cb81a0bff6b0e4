"""What managers hold, and what their workers begin -> managers whose workers take nothing.

A worker that has begun a job and is idle takes the next one at once; one that has not may still import what it needs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping


class Stuck:
    """Tells managers that hold a job which no worker takes from those whose workers are not ready yet.

    Args:
        begins_s: within so long a job begins where a worker is ready for it.
        starts_s: within so long a worker begins its first job, counted from the last that its manager's workers began.
    """

    def __init__(self, begins_s: float, starts_s: float) -> None:
        self._begins_s, self._starts_s = begins_s, max(begins_s, starts_s)
        self._ready = defaultdict[str, set[str]](set)  # workers that have begun a job, by manager
        self._began: dict[str, float] = {}  # when one of a manager's did so last
        self._since: dict[str, float] = {}  # when a manager was first seen to hold what nobody takes

    @property
    def begins_s(self) -> float:
        return self._begins_s

    def begins(self, manager: str, worker: str, now: float) -> None:
        """A worker begins a job."""
        self._ready[manager].add(worker)
        self._began[manager] = now

    def dies(self, manager: str, worker: str) -> None:
        """A worker died in a job: another process takes its place, and has to start."""
        self._ready[manager].discard(worker)

    def late(
        self,
        held: Mapping[str, int],
        at_work: Mapping[str, Iterable[str]],
        now: float,
        slow: Mapping[str, float],
    ) -> dict[str, float]:
        """The managers that are stuck, each with the limit that it passed, in seconds.

        Args:
            held: jobs that each manager was given and has not handed back.
            at_work: the workers that run jobs, by manager; "" where it is not known which.
            slow: how many times as long everything takes at a manager.
        """
        busy = {manager: list(at_work.get(manager, ())) for manager in held}
        idle = [manager for manager in held if held[manager] > len(busy[manager])]
        self._since = {manager: self._since.get(manager, now) for manager in idle}
        limits = {}
        for manager in idle:
            ready = self._ready[manager] - set(busy[manager])
            unknown = busy[manager].count("")
            limit_s = (self._begins_s if len(ready) > unknown else self._starts_s) * slow.get(manager, 1.0)
            if now - max(self._since[manager], self._began.get(manager, -math.inf)) > limit_s:
                limits[manager] = limit_s
        return limits

    def forget(self) -> None:
        """Nothing waits."""
        self._since.clear()

    def be_patient(self) -> None:
        """Wait twice as long from now on: perhaps all is well, but slow."""
        self._begins_s *= 2
        self._starts_s = max(self._begins_s, self._starts_s)
