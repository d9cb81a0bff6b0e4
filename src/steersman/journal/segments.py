"""The segments of one walker: those that nothing changes any more take 16 bytes each, for a run may have millions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from steersman.store import ENDED
from steersman.store.names import SegmentName

RUNNING = -1  # the end of a segment that has none yet, in columns
HOW = (*ENDED, "lost", "running")
FAILED, LOST, STOPPED = (HOW.index(how) for how in ("failed", "lost", "stopped"))
_FLAGS = "counts", "state", "repeats"
_PACKED = np.dtype([("start", "i4"), ("first", "i4"), ("end", "i4"), ("how", "i1"), *((name, "?") for name in _FLAGS)])
_BLOCK = 64  # segments; what a thousand arrays leave behind that grow side by side was twice what they held


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
    state: bool = False  # it left its full restart state
    repeats: bool = True  # all that it was told would be so again, bit for bit

    @property
    def name(self) -> str:
        return str(SegmentName(self.walker, self.number))


class Segments(Sequence[Segment]):
    """A walker's segments in order; a segment that was packed is given as a copy, for it does not change.

    A copy does not say what was simulated: sums are made of segments as they are published (Walker).
    """

    def __init__(self, walker: int) -> None:
        self._walker = walker
        self._blocks: list[np.ndarray] = []
        self._packed = 0
        self._open: list[Segment] = []

    @property
    def running(self) -> Segment | None:
        """The one that has no end yet."""
        return self._open[-1] if self._open and self._open[-1].end is None else None

    @property
    def unpacked(self) -> Sequence[Segment]:
        """The newest ones, which may still change."""
        return self._open

    def append(self, segment: Segment) -> None:
        self._open.append(segment)

    def pack(self, published: int) -> None:
        """Those of the first `published` that have ended, up to the first that has not, change no more."""
        while self._open and self._packed < published and self._open[0].end is not None:
            each = self._open.pop(0)
            if self._packed % _BLOCK == 0:
                self._blocks.append(np.empty(_BLOCK, _PACKED))
            self._blocks[-1][self._packed % _BLOCK] = _packed(each)
            self._packed += 1

    def leave_out(self, frames: int) -> None:
        """None counts any more, and those that run end at `frames`."""
        for block in self._blocks:
            block["counts"] = False
        for segment in self._open:
            segment.end = frames if segment.end is None else segment.end
            segment.counts = False

    def drop(self, number: int) -> None:
        """One counts no more."""
        if number < self._packed:
            self._blocks[number // _BLOCK]["counts"][number % _BLOCK] = False
        else:
            self._open[number - self._packed].counts = False

    def columns(self) -> np.ndarray:
        """(n,) with fields start, first (row), end (RUNNING: none yet), how (of HOW), counts, state and repeats."""
        opened = [_packed(each) for each in self._open]
        packed = np.concatenate([np.empty(0, _PACKED), *self._blocks])[: self._packed]
        return np.concatenate([packed, np.array(opened, _PACKED)])

    def __len__(self) -> int:
        return self._packed + len(self._open)

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
        if at >= self._packed:
            return self._open[at - self._packed]
        start, first, end, how, *flags = self._blocks[at // _BLOCK][at % _BLOCK].item()
        return Segment(self._walker, at, start, first, end, HOW[how], **dict(zip(_FLAGS, flags, strict=True)))


def _packed(segment: Segment) -> tuple[int, ...]:
    end = RUNNING if segment.end is None else segment.end
    flags = (getattr(segment, name) for name in _FLAGS)
    return segment.start, segment.first, end, HOW.index(segment.how), *flags
