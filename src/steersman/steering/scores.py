"""What steering looks at: every scored frame of a run under one model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Scores of n published frames, in the order in which they were published; in rounds in the order of their starts,
    whichever walker ran them.

    Args:
        walker: (n,) int, number of the walker that made the frame.
        row: (n,) int, its row in the walker's group.
        segment: (n,) int, number of the segment within the walker.
        starts: (n,) int, how many segments have been started from it.
        ends: (n,) bool, whether it is the last frame of an ended segment; where `exact`, of one that left its state.
        values: what the score function returned, name -> (n, ...) float; empty before the first model.
        model: version of the model that made `values`; 0 when none did.
        weight: (n,) float, weight of the member of a weighted ensemble that made the frame; 0 of other frames.
        round: (n,) int, the round of that member, from 1 on; 0 of other frames.
        root: (n,) int, the start of the first member that it descends from; -1 of other frames.
        held_out: (n,) bool, whether no training sees the frame.
        biased_by: (n,) int, version of the model along whose coordinate the frame was biased; 0 of other frames.
        given_model: (n,) int, version of the model that the frame's segment was given; empty of a run without labels.
        exact: a segment can begin at `ends` alone.
        left_out: `frame_key` of the frames that have a score of NaN, see `Variable.missing`.
    """

    walker: np.ndarray
    row: np.ndarray
    segment: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    model: int = 0
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    round: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    root: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    held_out: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    biased_by: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    given_model: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    exact: bool = False
    left_out: frozenset[int] = frozenset()
    _crowds: dict[tuple[str, int], np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """What looks at scores cannot change them for the next who looks."""
        object.__setattr__(self, "values", {name: _unchanged(each) for name, each in self.values.items()})

    def __len__(self) -> int:
        return len(self.row)

    @property
    def age(self) -> np.ndarray:
        """(n,) int: segments since its first member began, in a window of `Splitting` those that are over; 0 of other
        frames."""
        first = np.full(self.root.max(initial=-1) + 2, len(self))
        np.minimum.at(first, self.root, self.round)
        return np.where(self.root < 0, 0, self.round - first[self.root] + 1)

    def only(self, chosen: np.ndarray) -> Scores:
        """Those of some frames: (m,) positions, or (n,) bool."""
        of = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        rows = {name: column[chosen] for name, column in of.items() if isinstance(column, np.ndarray) and len(column)}
        return replace(self, **rows, values={name: value[chosen] for name, value in self.values.items()})

    def frame(self, index: int) -> list[int] | None:
        """[walker, row, segment] of the frame at a position; None of a new member, which has none."""
        return None if index < 0 else [int(self.walker[index]), int(self.row[index]), int(self.segment[index])]

    def startable(self, positions: np.ndarray) -> np.ndarray:
        """Those positions, in their order, where a segment can begin."""
        return positions[self.ends[positions]] if self.exact else positions

    def matrix(self, name: str) -> np.ndarray:
        """(n, d) float64 of one score, a scalar score as one column."""
        value = np.asarray(self.values[name], dtype=np.float64)
        return value.reshape(len(value), math.prod(value.shape[1:]))  # also of no frames

    def column(self, name: str) -> np.ndarray:
        """(n,) float64 of a score with one number for each frame. Raises: ValueError: it has several."""
        value = self.matrix(name)
        if value.shape[1] != 1:
            problem = f"{name} has {value.shape[1]} numbers for each frame, where one is asked for"
            raise ValueError(f"{problem}; let the score stage return the one by itself")
        return value[:, 0]

    def cells(self, name: str, bins: int = 20) -> np.ndarray:
        """(n,) int: the cell of each frame on a grid of `bins` per dimension over the range sampled so far.

        Raises: ValueError: a grid of more cells than can be counted, or of none.
        """
        x = self.matrix(name)
        if bins < 1:
            raise ValueError(f"bins={bins}: a grid has at least 1 cell in each dimension")
        if bins ** x.shape[1] >= 2**63:
            raise ValueError(
                f"{name} has {x.shape[1]} dimensions, too many for a grid of {bins} cells in each; "
                "give a smaller bins, or a score of fewer dimensions"
            )
        low, high = x.min(axis=0), x.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        grid = np.minimum((bins * (x - low) / width).astype(np.int64), bins - 1)
        return np.asarray(np.ravel_multi_index(tuple(grid.T), (bins,) * x.shape[1]), dtype=np.int64)

    def crowd(self, name: str, bins: int = 20) -> np.ndarray:
        """(n,) int: how many frames share the cell of each frame; counted once, though each running segment asks."""
        if (name, bins) not in self._crowds:
            _, where, counts = np.unique(self.cells(name, bins), return_inverse=True, return_counts=True)
            self._crowds[name, bins] = np.asarray(counts[where], dtype=np.int64)
        return self._crowds[name, bins]

    def occupied_cells(self, name: str, bins: int = 20) -> int:
        """Number of cells that hold at least one frame; 0 before there are scores."""
        return len(np.unique(self.cells(name, bins))) if name in self.values and len(self) else 0


def some_missing(values: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """(rows,) bool: whether any of these (rows, ...) is NaN."""
    missing = np.zeros(rows, bool)
    with np.errstate(all="ignore"):
        for value in values.values():
            if value.dtype.kind == "f" and np.isnan(value.sum()):
                missing |= np.isnan(value).reshape(rows, -1).any(axis=1)
    return missing


def _unchanged(values: np.ndarray) -> np.ndarray:
    view = np.asarray(values).view()
    view.flags.writeable = False
    return view
