"""State, times and starts -> what every segment did and when, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from steersman.data.slot_time import gone_at
from steersman.journal import published
from steersman.journal.errors import no_segment
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.given import Given
from steersman.journal.segments import HOW
from steersman.journal.state import State
from steersman.store import Span
from steersman.store.names import FrameName, SegmentName, walker_name
from steersman.system.errors import UnknownName

BATCH = 16_384  # frames that are read at a time


def no_frame(name: str, frames: int) -> UnknownName:
    return UnknownName("frame", name, [f"0 to {frames - 1}, a row of `run.scores`, or SEGMENT:FRAME"] if frames else [])


@dataclass(frozen=True)
class SegmentTable:
    """Segments in the order in which they began; n of them.

    Args:
        walker, number, slot, start: (n,) int.
        parent: (n,) int, position of the segment whose frame it started from, -1 for the prepared start, where segments
            begin whatever is chosen (State.blind) too, or where it is not known any more (`lost`).
        parent_row: (n,) int, row of that frame in its walker's group, -1.
        policy: (n,) str, who chose the start.
        seed: (n,) int, of its random numbers; -1 where the record of its start is gone.
        how: (n,) str, how it ended: finished, stopped, failed or lost; running: it has not.
        model: (n,) int, version of the model that chose.
        given: (n,) each, what the simulation got of what was learned, by the fields of `Given`.
        began, ended: (n,) float, seconds since 1970; one that runs ends now, one that was lost with its walker.
        simulated: (n,) float, in the run's unit of time; of one that runs 0.
        lost: (n,) bool, that the record of where it began, or of what made that frame, is gone.
        repeats: (n,) bool, that all it was told would be so again, bit for bit.
        first, end: (n,) int, its rows [first, end) in its walker's group; none when it does not count.
    """

    walker: np.ndarray
    number: np.ndarray
    slot: np.ndarray
    start: np.ndarray
    parent: np.ndarray
    parent_row: np.ndarray
    policy: np.ndarray
    seed: np.ndarray
    how: np.ndarray
    model: np.ndarray
    given: dict[str, np.ndarray]
    began: np.ndarray
    ended: np.ndarray
    simulated: np.ndarray
    lost: np.ndarray
    repeats: np.ndarray
    first: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.walker)

    def name(self, i: int) -> str:
        return str(SegmentName(self.walker[i], self.number[i]))

    def find(self, name: str) -> int:
        """The position of a segment, or of that of a frame (w0.7:3).

        Raises: UnknownName: the journal knows none, or the segment has other frames.
        """
        wanted = SegmentName.parse(name)
        same = (self.walker == wanted.walker) & (self.number == wanted.number) if wanted else np.zeros(0, bool)
        if not same.any():
            raise no_segment(name, self.name(len(self) - 1) if len(self) else "")
        at = int(same.argmax())
        named, frames = FrameName.parse(name), self.end - self.first
        if named and 0 < frames[at] <= named.frame:
            raise no_frame(name, int(frames.sum()))
        return at

    @property
    def made(self) -> np.ndarray:
        """Positions of the segments that have published frames that count."""
        return np.flatnonzero(self.end > self.first)

    def frame(self, at: int, row: int) -> FrameName:
        """The name of a row of a segment."""
        return FrameName(SegmentName(int(self.walker[at]), int(self.number[at])), row - int(self.first[at]))

    def spans(self, at: Iterable[int]) -> list[Span]:
        """The published rows of segments."""
        return [Span(walker_name(self.walker[i]), int(self.first[i]), int(self.end[i])) for i in at]

    def batches(self) -> list[np.ndarray]:
        """Positions of the segments that count, some ten thousand frames at a time."""
        made = self.made
        blocks = np.cumsum((self.end - self.first)[made]) // BATCH
        return np.split(made, np.flatnonzero(np.diff(blocks)) + 1) if len(made) else []

    def lineage(self, at: int) -> list[int]:
        """Positions of the segments that led to one, itself last."""
        ancestors = []
        while at >= 0:
            ancestors.append(at)
            at = int(self.parent[at])
        return ancestors[::-1]

    def of_frames(self, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
        """(m,) int: the segment that made each frame, -1 when none that counts did."""
        own = self.made
        own = own[np.lexsort((self.first[own], self.walker[own]))]
        if not len(own):
            return np.full(len(row), -1)
        keys = frame_key(self.walker[own], self.first[own])
        at = own[np.maximum(np.searchsorted(keys, frame_key(walker, row), side="right") - 1, 0)]
        inside = (self.walker[at] == walker) & (self.first[at] <= row) & (row < self.end[at])
        return np.where(inside, at, -1)

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


def tabulate(state: State, times: np.ndarray, starts: np.ndarray, policies: Sequence[str]) -> SegmentTable:
    """Put what the state knows of each segment beside its times and its start.

    Args:
        times: (n,) with walker, number, began, ended (NaN: not yet) and simulated, in the order of beginnings.
        starts: (m,) of the starts by number, see History.starts.
        policies: names of the policies that `starts` numbers.
    """
    columns = published.segments(state)
    key = frame_key(times["walker"], times["number"])
    at = np.searchsorted(frame_key(columns["walker"], columns["number"]), key)  # which are in order
    own = {name: column[at] for name, column in columns.items()}
    known = own["start"] < len(starts)
    chosen = starts[np.where(known, own["start"], 0)] if len(starts) else np.zeros(len(times), starts.dtype)
    known &= chosen["moment"] > 0
    names = np.array([*policies, "unknown"], dtype=object)
    parent = places(key, frame_key(np.where(known, chosen["walker"], -1), chosen["segment"]))
    parent = np.where(parent < np.arange(len(times)), parent, -1)
    lost = ~known | ((chosen["walker"] >= 0) & (parent < 0))
    parent_row = np.where(known, chosen["row"], -1)
    if state.blind:
        parent[:], parent_row[:] = -1, -1
    slots, gone = np.zeros(state.next_walker + 1, int), np.full(state.next_walker + 1, state.now)
    for walker in state.walkers.values():
        slots[walker.number], gone[walker.number] = walker.slot, gone_at(state, walker, state.now)
    return SegmentTable(
        walker=times["walker"].astype(int), number=times["number"].astype(int), slot=slots[times["walker"]],
        start=own["start"], parent=parent, lost=lost, parent_row=parent_row,
        policy=names[np.where(known, chosen["policy"], -1)], seed=np.where(known, chosen["seed"], -1),
        how=np.array(HOW, dtype=object)[own["how"]],
        model=np.where(known, chosen["model"], 0),
        given={name: np.where(known, chosen[name], none) for name, none in Given()._asdict().items()},
        repeats=own["repeats"], began=times["began"],
        ended=np.where(np.isnan(times["ended"]), gone[times["walker"]], times["ended"]),
        simulated=_simulated(state, times, own["how"] == HOW.index("lost")),
        first=own["first"], end=np.where(own["counts"], np.maximum(own["published"], own["first"]), own["first"]),
    )  # fmt: skip


def _simulated(state: State, times: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """(n,) float: what each segment simulated; the one that its walker's loss cut short, as far as it was published.

    Args:
        lost: (n,) bool.
    """
    simulated = np.where(lost, 0.0, times["simulated"])
    whole = np.bincount(times["walker"], weights=simulated, minlength=state.next_walker)
    for at in np.flatnonzero(lost):
        walker = state.walkers[int(times["walker"][at])]
        if times["number"][at] == walker.published_segments:
            simulated[at] = max(0.0, walker.simulated - whole[walker.number])
    return simulated
