"""What no training sees: starts that were drawn for it, or every tenth.

Of members of windows, which are drawn, too, it is every tenth first member with all that descend from it: a brother of
what is held out knows its past.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.modes.mode import Mode
from steersman.journal.records import Start

EVERY = 10  # the last of so many starts is held out of training, where none was drawn for that


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
            self._members += 1
            if self._members % EVERY == 0:
                self._held.add(start.start)

    def has(self, starts: np.ndarray) -> np.ndarray:
        """(n,) bool: which starts are held out; -1: nobody knows which start it is."""
        if self.drawn:
            return np.isin(starts, np.fromiter(self.drawn, np.int64))
        if self._members:
            return np.isin(self.state.mode(Ensemble).columns(starts)["root"], np.fromiter(self._held, np.int64))
        return np.asarray((starts >= 0) & (starts % EVERY == EVERY - 1))

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        return {"held_out": self.has(starts)}
