"""The segments of one walker: those that nothing changes any more take 14 bytes each, for a run may have millions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from steersman.store import ENDED

RUNNING = -1  # the end of a segment that has none yet, in columns
_HOW = (*ENDED, "lost")


@dataclass(slots=True)
class Segment:
    """Frames [first, end) of a walker, made from one start; `end` is None while it runs."""

    walker: int
    number: int
    start: int
    first: int
    end: int | None = None
    how: str = "running"
    counts: bool = True  # False: lost with its walker or run twice; its frames are left out
    simulated: float = 0.0

    @property
    def name(self) -> str:
        return f"w{self.walker}.{self.number}"


class Segments(Sequence[Segment]):
    """A walker's segments in order; a segment that was packed is given as a copy, for it does not change.

    A copy does not tell what was simulated: sums are made of segments as they are published (Walker).
    """

    def __init__(self, walker: int) -> None:
        self._walker = walker
        self._start, self._first, self._end = array("i"), array("i"), array("i")
        self._counts, self._how = array("b"), array("b")
        self._open: list[Segment] = []

    @property
    def running(self) -> Segment | None:
        """The one that has no end yet."""
        return self._open[-1] if self._open and self._open[-1].end is None else None

    def append(self, segment: Segment) -> None:
        self._open.append(segment)

    def pack(self, published: int) -> None:
        """Those of the first `published` that have ended, up to the first that has not, change no more."""
        while self._open and len(self._how) < published and self._open[0].end is not None:
            segment = self._open.pop(0)
            self._start.append(segment.start)
            self._first.append(segment.first)
            self._end.append(segment.end if segment.end is not None else RUNNING)
            self._counts.append(segment.counts)
            self._how.append(_HOW.index(segment.how))

    def leave_out(self, frames: int) -> None:
        """None counts any more, and those that run end at `frames`."""
        self._counts = array("b", bytes(len(self._how)))
        for segment in self._open:
            segment.end = frames if segment.end is None else segment.end
            segment.counts = False

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(n,) int64 start, first row, end (RUNNING: none yet), and bool whether it counts."""
        opened = self._open
        start, first, end = (
            np.concatenate([np.array(packed, np.int64), np.array(rest, np.int64)])
            for packed, rest in (
                (self._start, [each.start for each in opened]),
                (self._first, [each.first for each in opened]),
                (self._end, [RUNNING if each.end is None else each.end for each in opened]),
            )
        )
        counts = np.concatenate([np.array(self._counts, bool), np.array([each.counts for each in opened], bool)])
        return start, first, end, counts

    def __len__(self) -> int:
        return len(self._how) + len(self._open)

    @overload
    def __getitem__(self, number: int) -> Segment: ...
    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...
    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        at = number + len(self) if number < 0 else number
        if not 0 <= at < len(self):
            raise IndexError(number)
        packed = len(self._how)
        if at >= packed:
            return self._open[at - packed]
        return Segment(
            self._walker, at, self._start[at], self._first[at], self._end[at], _HOW[self._how[at]],
            bool(self._counts[at]),
        )  # fmt: skip
