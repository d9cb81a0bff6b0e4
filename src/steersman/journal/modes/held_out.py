"""What no training sees: starts that were drawn for it, or every tenth.

Of members of windows, which are drawn, too, it is every tenth first member with all that descend from it: a brother of
what is held out knows its past.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

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
        self._of_member = array("b")  # of each start whether its first member is held out, or -1

    def chosen(self, start: Start) -> None:
        if start.held_out:
            self.drawn.add(start.start)
            self.draws += start.again is None
        if start.round:
            self._of_member.extend([-1] * (start.start + 1 - len(self._of_member)))
            self._of_member[start.start] = self._with_first_member(start)

    def _with_first_member(self, start: Start) -> int:
        if start.parent is not None:
            return self._of_member[self.state.walkers[start.parent.walker].segments[start.parent.segment].start]
        if not start.draw:
            return -1
        self._members += 1
        return int(self._members % EVERY == 0)

    def has(self, starts: np.ndarray) -> np.ndarray:
        """(n,) bool: which starts are held out; -1: nobody knows which start it is."""
        if self.drawn:
            return np.isin(starts, np.fromiter(self.drawn, np.int64))
        by_number = (starts >= 0) & (starts % EVERY == EVERY - 1)
        if not self._members:
            return np.asarray(by_number)
        at = np.where((starts >= 0) & (starts < len(self._of_member)), starts, -1)
        of_member = np.append(np.array(self._of_member), -1)[at]  # the last one is of no member
        return np.asarray(np.where(of_member < 0, by_number, of_member == 1))

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        return {"held_out": self.has(starts)}
