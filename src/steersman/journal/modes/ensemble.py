"""A run of rounds of members with weights: the weight and the round of each start."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.journal.modes.mode import Mode
from steersman.journal.records import Start


class Ensemble(Mode):
    """Members of a weighted ensemble.

    Attributes:
        weights, rounds: of each start, by its number; shorter than there are starts, empty of a run that has none.
        roots: of each start, the one that its first ancestor began with.
    """

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.weights, self.rounds, self.roots = array("d"), array("q"), array("q")

    def chosen(self, start: Start) -> None:
        """Of several runs of one start the newest has its weight."""
        if not start.round:
            return
        missing = start.start + 1 - len(self.weights)
        self.weights.extend([0.0] * missing)
        self.rounds.extend([0] * missing)
        self.roots.extend([-1] * missing)
        self.weights[start.start], self.rounds[start.start] = start.weight, start.round
        self.roots[start.start] = self._root(start)
        if start.again is not None:
            self.weights[start.again] = self.rounds[start.again] = 0

    def _root(self, start: Start) -> int:
        if start.parent is None:
            return start.start
        return self.roots[self.state.walkers[start.parent.walker].segments[start.parent.segment].start]

    @property
    def newest(self) -> int:
        """The number of the newest round, from 1 on; 0: there was none."""
        return self.rounds[-1] if self.rounds else 0

    @property
    def weighs(self) -> bool:
        return bool(self.rounds)

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        if not self.rounds:
            return {}
        at = np.where((starts >= 0) & (starts < len(self.rounds)), starts, -1)  # the last one is of no member
        all_of = (("weight", self.weights, 0), ("round", self.rounds, 0), ("root", self.roots, -1))
        return {name: np.append(np.array(column), none)[at] for name, column, none in all_of}

    def of_segments(self, starts: np.ndarray, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns = self.columns(starts)
        return {name: columns[name] for name in ("weight", "round") if columns}
