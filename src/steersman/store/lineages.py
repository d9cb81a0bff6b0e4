"""Frames of a window -> which of them came of which, over segments that go on exactly where another ended.

A segment goes on exactly if it was begun so at the last frame of another, under the same bias and parameters. Tables of
segments say so; those of runs of before do not, and their segments are not joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steersman.store.frames import SEGMENT_FIELDS, Frames, Span, number_of
from steersman.store.names import walker_name

EVEN = 0.01  # of a lag in time, by which the frames of a pair may be off
FINISHED = 0  # of ENDED

Place = tuple[str, int]  # a walker, and the number of one of its segments


@dataclass(frozen=True)
class Fate:
    """What came of frames: an entry for each frame and each member that descended from it.

    Args:
        rows, last: (m,) int64, the frame, and that at which the member ended, rows of the window.
        outcome: (m, ...) what that member had come to.
        weight: (m,) float64, of the member at its end; 1.0 where members have none.
        root: (m,) int64, a number for each first member, the same for all that descend from it.
        lead: (m,) float64, segments that were left.
    """

    rows: np.ndarray
    last: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray
    root: np.ndarray
    lead: np.ndarray


class Lineages:
    """The pieces of segments in a window.

    Attributes:
        first, end: (P,) int64, rows of the window.
        span: (P,) int64, the span of the window that each lies in.
        before: (P,) int64, the piece that each goes on from exactly, which has the last frame of its segment; or -1.
        restored: (P,) bool, whether that one left its restart state; else its frame may not be all that there is.
        finished: (P,) bool, whether it has the last frame of a segment that nothing ended early.
        own, root: (P,) int64, a number for the segment of each, and that of the oldest one of its lineage, also where
            the window has it not.
    """

    def __init__(self, frames: Frames, spans: Sequence[Span]) -> None:
        self._frames, self._tables, self._roots = frames, dict[str, EndedSegments](), dict[Place, int]()
        pieces = [(at, span.walker, *rows) for at, span in enumerate(spans) for rows in self._cut(span)]
        self.span = np.array([at for at, *_ in pieces], np.int64)
        self.end = np.cumsum([end - row for *_, row, end in pieces])
        self.first = np.concatenate([[0], self.end[:-1]])
        self.before, self.root = np.full(len(pieces), -1), np.zeros(len(pieces), np.int64)
        self.own = np.zeros(len(pieces), np.int64)
        self.restored, self.finished = np.zeros(len(pieces), bool), np.zeros(len(pieces), bool)
        last = {(walker, end): at for at, (_, walker, _, end) in enumerate(pieces)}
        for at, (_, walker, row, end) in enumerate(pieces):
            table = self._table(walker)
            segment = table.made(row)
            self.own[at] = self.root[at] = key(walker, row)
            if segment >= 0:
                self.own[at], self.root[at] = key(walker, table.first[segment]), self._root(walker, segment)
                self.finished[at] = table.end[segment] == end and table.ended[segment] == FINISHED
                parent = self._parent(walker, segment)
                if parent and table.first[segment] == row and self._alike(parent, (walker, segment)):
                    self.before[at] = last.get((parent[0], table.parent_row[segment] + 1), -1)
                    self.restored[at] = self._table(parent[0]).state_bytes[parent[1]] > 0

    def lagged(self, x: np.ndarray, lag: float, tolerance: float) -> np.ndarray:
        """(m, 2) int64, rows of all pairs of frames, the second of which came of the first a lag later.

        Args:
            x: (rows,) where each frame lies in its segment, which began at 0; it ascends.
            tolerance: by which a pair may be off; of several frames the nearest one counts.
        """
        late = np.arange(len(x))
        at, wanted = np.repeat(np.arange(len(self.first)), self.end - self.first), x - lag
        while (up := wanted < x[self.first[at]] - tolerance).any():
            go = ~up | (self.restored[at] & (self.before[at] >= 0))
            late, at, wanted, up = late[go], at[go], wanted[go], up[go]
            at = np.where(up, self.before[at], at)
            wanted = wanted + np.where(up, x[self.end[at] - 1], 0.0)
        early = self._nearest(x, at, wanted)
        near = (np.abs(x[early] - wanted) <= tolerance) & (early != late)
        pairs = np.stack([early[near], late[near]], axis=1)
        return np.asarray(pairs[np.lexsort(pairs.T[::-1])])

    def _nearest(self, x: np.ndarray, at: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """(m,) row of each piece where x is nearest to what is wanted."""
        low, high = self.first[at], self.end[at] - 1
        while (apart := high - low > 1).any():
            middle = (low + high) // 2
            left = x[middle] <= wanted
            low, high = np.where(apart & left, middle, low), np.where(apart & ~left, middle, high)
        return np.asarray(np.where(wanted - x[low] <= x[high] - wanted, low, high))

    def fates(self, age: np.ndarray, ends: np.ndarray) -> Iterator[tuple[np.ndarray, int, int]]:
        """Rows of which a member came that ended a segment at one of some ages, its piece, and its root.

        Args:
            age: (rows,) segments that are over; it falls where a window of them begins.
        """
        for member in np.flatnonzero(self.finished & np.isin(age[self.end - 1], ends)).tolist():
            at, rows = member, [np.arange(self.first[member], self.end[member] - 1)]
            while (before := int(self.before[at])) >= 0 and age[self.first[at]] >= age[self.end[before] - 1]:
                at = before
                rows.append(np.arange(self.first[at], self.end[at]))
            yield np.concatenate(rows[::-1]), member, int((self.root if before < 0 else self.own)[at])

    def _cut(self, span: Span) -> Iterator[tuple[int, int]]:
        """Rows of the walker, a piece of one segment each."""
        edges = self._table(span.walker).edges
        low, high = np.searchsorted(edges, (span.first + 1, span.end))
        yield from pairwise([span.first, *edges[low:high].tolist(), span.end])

    def _table(self, walker: str) -> EndedSegments:
        if walker not in self._tables:
            self._tables[walker] = EndedSegments(self._frames.read_table(walker))
        return self._tables[walker]

    def _parent(self, walker: str, segment: int) -> Place | None:
        """The segment that one goes on from exactly, at its last frame."""
        table = self._table(walker)
        number, row = table.parent_walker[segment], table.parent_row[segment]
        if number < 0 or table.exact[segment] != 1:
            return None
        parent = walker_name(number)
        try:
            maker = self._table(parent).made(row)
        except FileNotFoundError:  # it was set aside
            return None
        return (parent, maker) if maker >= 0 and self._table(parent).end[maker] == row + 1 else None

    def _alike(self, one: Place, other: Place) -> bool:
        return len({self._table(walker).conditions[segment] for walker, segment in (one, other)}) == 1

    def _root(self, walker: str, segment: int) -> int:
        place: Place | None = (walker, segment)
        way = list[Place]()
        while place is not None and place not in self._roots:
            way.append(place)
            place = self._parent(*place)
        top = self._roots[place] if place else key(way[-1][0], self._table(way[-1][0]).first[way[-1][1]])
        self._roots |= dict.fromkeys(way, top)
        return top


class EndedSegments:
    """The ended segments of a walker, a list of each column."""

    def __init__(self, rows: np.ndarray) -> None:
        columns = dict(zip(SEGMENT_FIELDS, rows.T.tolist(), strict=True))
        self.first, self.end = np.array(columns["first_row"], np.int64), np.array(columns["end_row"], np.int64)
        self.edges = np.union1d(self.first, self.end)
        self.parent_walker, self.parent_row = columns["parent_walker"], columns["parent_row"]
        self.ended, self.exact, self.conditions = (columns[name] for name in ("ended", "exact", "conditions"))
        self.state_bytes = columns["state_bytes"]

    def made(self, row: int) -> int:
        """The segment that made a frame; -1: one that has not ended."""
        at = int(np.searchsorted(self.first, row, side="right")) - 1
        while at >= 0 and self.first[at] == self.end[at]:  # an empty one may begin where another does
            at -= 1
        return at if at >= 0 and row < self.end[at] else -1


def key(walker: str, row: int) -> int:
    """As `Window.ids`."""
    return (number_of(walker) << 40) + int(row)
