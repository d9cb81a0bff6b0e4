"""Journal records -> what every segment did and when, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steersman.journal.state import State


class ChosenStart(NamedTuple):
    """What the journal says of one start; `parent` is (walker, row, segment), None for the prepared start."""

    moment: float
    parent: tuple[int, int, int] | None
    policy: str
    reason: str
    model: int


UNKNOWN = ChosenStart(0.0, None, "unknown", "the journal does not tell", 0)


class Times(NamedTuple):
    """When a segment began and ended (seconds since 1970; NaN while it runs), and what it simulated."""

    began: float
    ended: float = float("nan")
    simulated: float = 0.0


@dataclass(frozen=True)
class Segments:
    """Segments in the order in which they began; n of them.

    Args:
        walker, number, slot, start: (n,) int.
        parent: (n,) int, position of the segment whose frame it started from, -1 for the prepared start.
        parent_row: (n,) int, row of that frame in its walker's group, -1.
        policy, how: (n,) str, who chose the start and how the segment ended.
        model: (n,) int, version of the model that chose.
        began, ended: (n,) float, seconds since 1970.
        simulated: (n,) float, in the run's unit of time.
        first, end: (n,) int, its rows [first, end) in its walker's group; none when it does not count.
    """

    walker: np.ndarray
    number: np.ndarray
    slot: np.ndarray
    start: np.ndarray
    parent: np.ndarray
    parent_row: np.ndarray
    policy: np.ndarray
    how: np.ndarray
    model: np.ndarray
    began: np.ndarray
    ended: np.ndarray
    simulated: np.ndarray
    first: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.walker)

    def name(self, i: int) -> str:
        return f"w{self.walker[i]}.{self.number[i]}"

    def of_frames(self, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
        """(m,) int: the segment that made each frame, -1 when none that counts did."""
        own = np.flatnonzero(self.end > self.first)
        own = own[np.lexsort((self.first[own], self.walker[own]))]
        if not len(own):
            return np.full(len(row), -1)
        keys = frame_key(self.walker[own], self.first[own])
        at = own[np.maximum(np.searchsorted(keys, frame_key(walker, row), side="right") - 1, 0)]
        made = (self.walker[at] == walker) & (self.first[at] <= row) & (row < self.end[at])
        return np.where(made, at, -1)

    def moments(self, at: np.ndarray, row: np.ndarray) -> np.ndarray:
        """(m,) float: when rows of segments `at` were made, frames being made evenly."""
        share = (row - self.first[at] + 1) / (self.end[at] - self.first[at])
        return np.asarray(self.began[at] + share * (self.ended[at] - self.began[at]))

    def descendants(self) -> np.ndarray:
        """(n,) int: how many segments descend from each; a parent began before its children."""
        below = np.zeros(len(self), np.int64)
        for i in range(len(self) - 1, -1, -1):
            if self.parent[i] >= 0:
                below[self.parent[i]] += 1 + below[i]
        return below

    def generations(self) -> np.ndarray:
        """(n,) int: how many ancestors each has."""
        above = np.zeros(len(self), np.int64)
        for i, parent in enumerate(self.parent):
            if parent >= 0:
                above[i] = above[parent] + 1
        return above


def tabulate(state: State, starts: Mapping[int, ChosenStart], times: Mapping[tuple[int, int], Times]) -> Segments:
    """Put what the state knows of each segment beside its times and its start."""
    known = [(times.get((s.walker, s.number), Times(state.now)), s) for s in state.segments]
    known.sort(key=lambda pair: pair[0].began)
    position = {(s.walker, s.number): i for i, (_, s) in enumerate(known)}
    rows = []
    for i, (time, s) in enumerate(known):
        chosen = starts.get(s.start, UNKNOWN)
        walker, row, number = chosen.parent or (-1, -1, -1)
        parent = position.get((walker, number), -1)
        published = state.walkers[s.walker].frames
        end = published if s.end is None else min(published, s.end)
        rows.append((
            s.walker, s.number, state.walkers[s.walker].slot, s.start, parent if parent < i else -1, row,
            chosen.policy, s.how, chosen.model, time.began, state.now if np.isnan(time.ended) else time.ended,
            time.simulated, s.first, max(end, s.first) if s.counts else s.first,
        ))  # fmt: skip
    kinds = (int, int, int, int, int, int, object, object, int, float, float, float, int, int)
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    return Segments(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))


def frame_key(walker: np.ndarray, row: np.ndarray) -> np.ndarray:
    """One sortable number for each frame."""
    return np.asarray(np.asarray(walker, dtype=np.int64) * 2**40 + row)
