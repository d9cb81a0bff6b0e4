"""Name -> Statistics: what a name holds, who waits for it, and how fast it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Statistics:
    """One name, or several added up.

    Attributes:
        put, done: tuples put and tuples taken for good (or ended) since the name was first used.
        ready: free to be taken; leases: handed out and not yet acknowledged.
        blocked: takers and readers in line; blocked_puts: puts that wait for room.
        dead, damaged: in the dead letters; moved aside because they could not be read.
        oldest_s: age of the oldest tuple that is ready, 0 when there is none.
        bound: most tuples the name may hold, 0 without a bound.
        age_s: since the first put.
        put_per_s, done_per_s: since the last look at it, at first since the first put.
    """

    put: int = 0
    done: int = 0
    ready: int = 0
    leases: int = 0
    blocked: int = 0
    blocked_puts: int = 0
    dead: int = 0
    damaged: int = 0
    bound: int = 0
    oldest_s: float = 0.0
    age_s: float = 0.0
    put_per_s: float = 0.0
    done_per_s: float = 0.0

    def since(self, before: Statistics | None) -> Statistics:
        """The same with the rates since an earlier look; since the first put without one."""
        earlier = before or Statistics()
        seconds = self.age_s - earlier.age_s
        if seconds <= 0:
            return self
        return replace(
            self, put_per_s=(self.put - earlier.put) / seconds, done_per_s=(self.done - earlier.done) / seconds
        )

    @classmethod
    def of_survey(cls, survey: Sequence[Any]) -> Statistics:
        """From the answer of `survey` in space.lua."""
        put, held, ready, leases, blocked, blocked_puts, dead, damaged, bound = survey[:9]
        now_ms, oldest_ms, since_ms = map(float, survey[9:])
        oldest_s = max(0.0, now_ms - oldest_ms) / 1000 if oldest_ms else 0.0
        age_s = max(0.0, now_ms - since_ms) / 1000 if since_ms else 0.0
        return cls(put, put - held, ready, leases, blocked, blocked_puts, dead, damaged, bound, oldest_s, age_s)
