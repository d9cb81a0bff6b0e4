"""Frames that have labels, with these: what a model learns from an expensive code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from steersman.store.frames import Frames, Span
from steersman.system.errors import UnknownName


class LabelledFrame(NamedTuple):
    """A frame, and where its label lies: a group of the run's labels, and a row of it."""

    walker: str
    row: int
    group: str
    at: int


class Labelled(Mapping[str, np.ndarray]):
    """n frames and what the label function answered for each: (n, ...) by name, read when they are first asked for.

    An answer hides the variable of the frame that has the same name, which `frames` still has: the forces of the
    expensive code those that the simulation followed.

    Args:
        frames, labels: of the run.
        places: which they are.
    Attributes:
        frames: variables of the frames alone, (n, ...) by name.
        answers: what was answered alone, (n, ...) by name.
    """

    def __init__(self, frames: Frames, labels: Frames, places: Sequence[LabelledFrame]) -> None:
        self.places = list(places)
        self.frames = _Rows(frames, [(each.walker, each.row) for each in places])
        self.answers = _Rows(labels, [(each.group, each.at) for each in places])

    @property
    def rows(self) -> int:
        return len(self.places)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.answers:
            return self.answers[name]
        if name not in self.frames:
            raise UnknownName("variable of labelled frames", name, list(self))
        return self.frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.answers, *self.frames]))

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Rows(Mapping[str, np.ndarray]):
    """Single rows of groups, in their order."""

    def __init__(self, groups: Frames, rows: Sequence[tuple[str, int]]) -> None:
        self._groups, self._rows = groups, rows
        self._kept: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._kept:
            each = [self._groups.read(name, Span(group, row, row + 1)) for group, row in self._rows]
            self._kept[name] = np.concatenate(each) if each else np.empty(0)
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups.variables(self._rows[0][0]) if self._rows else ())

    def __len__(self) -> int:
        return len(list(iter(self)))
