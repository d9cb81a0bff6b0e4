"""What no training sees: starts that were drawn for it, or a tenth of them.

Of members of windows, which are drawn, too, it is a tenth of the first members with all that descend from them: a
brother of what is held out knows its past.

It is one of each ten, and which one changes from ten to ten: conditions, slots and bins take turns, and every tenth
start might always be of the same one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.modes.mode import Mode
from steersman.journal.records import Start

EVERY = 10  # one of so many starts is held out of training, where none was drawn for that
MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)  # of splitmix64, Steele et al. (2014)


class HeldOut(Mode):
    """The starts that are held out of training.

    Attributes:
        drawn: those that were drawn for it.
        draws: how many; one that is run again is one draw.
    """

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.drawn: set[int] = set()
        self.draws = 0
        self._members = 0  # first members of windows
        self._held: set[int] = set()  # the starts of those that are held out

    def chosen(self, start: Start) -> None:
        if start.held_out:
            self.drawn.add(start.start)
            self.draws += start.again is None
        if start.round and start.draw:
            if self._one_of_ten(np.array([self._members]))[0]:
                self._held.add(start.start)
            self._members += 1

    def has(self, starts: np.ndarray) -> np.ndarray:
        """(n,) bool: which starts are held out; -1: nobody knows which start it is."""
        if self.drawn:
            return np.isin(starts, np.fromiter(self.drawn, np.int64))
        if self._members:
            return np.isin(self.state.mode(Ensemble).columns(starts)["root"], np.fromiter(self._held, np.int64))
        return np.asarray((starts >= 0) & self._one_of_ten(starts))

    def _one_of_ten(self, numbers: np.ndarray) -> np.ndarray:
        """(n,) bool: which of numbers, from 0 on."""
        if not self.state.run.scattered:  # a run of before
            return np.asarray(numbers % EVERY == EVERY - 1)
        mixed = (numbers // EVERY + 1).astype(np.uint64) * MIX[0]  # wraps around, as it should
        mixed = (mixed ^ (mixed >> np.uint64(29))) * MIX[1]
        return np.asarray(numbers % EVERY == (mixed >> np.uint64(33)) % np.uint64(EVERY))

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        return {"held_out": self.has(starts)}
