"""Run directory -> scored frames: what the model that the run used last says of every frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.scoreboard import MISSING, fullest
from steersman.steering.importance import POINT
from steersman.steering.scores import some_missing
from steersman.store import Frames, Span

INDISTINGUISHABLE = 1e-5  # of the extent of a plane
MOST_READ = 2_000_000  # newest frames that are looked at: 24 bytes each for a plane, 16 for where they come from


@dataclass(frozen=True)
class Plane:
    """A score of two or more columns as two coordinates per frame."""

    points: np.ndarray  # (n, 2)
    labels: tuple[str, str]

    @property
    def extent(self) -> np.ndarray:
        """(2,) float: how far the points reach, 1 where they do not differ."""
        reach = np.ptp(self.points, axis=0) if len(self.points) else np.ones(2)
        return np.where(reach > 0, reach, 1.0)

    def places(self) -> np.ndarray:
        """(n,) int: the same number for points that cannot be distinguished on a page."""
        fine = (self.points / self.extent / INDISTINGUISHABLE).round().astype(np.int64)
        return np.unique(fine, axis=0, return_inverse=True)[1].ravel()


class ScoredFrames:
    """Scored frames of segments that count, and that miss no score, n of them, in the order of their scoring.

    Attributes:
        model: version of the model, 0 for scores without one.
        names: names of the scores.
        segment: (n,) int, position of the segment that made the frame.
        moment: (n,) float, when, in seconds since 1970.

    Raises: NothingToDraw: the run has no scores.
    """

    def __init__(self, history: History) -> None:
        self._groups = Frames(history.directory.scores)
        self.model = history.state.scored_with
        self._span = self._newest(self.model)
        self.names = [name for name in self._groups.variables(self._span.walker) if name not in ("walker", "row")]
        walker, row = self._column("walker"), self._column("row")
        segment = history.segments.of_frames(walker, row)
        if self._groups.attributes(self._span.walker).get(MISSING):
            segment[some_missing({name: self._column(name) for name in self.names}, len(segment))] = -1
        self._kept = np.flatnonzero(segment >= 0)
        self.segment = segment[self._kept]
        self.moment = history.segments.moments(self.segment, row[self._kept])
        self._keys = frame_key(walker[self._kept], row[self._kept])

    def __len__(self) -> int:
        return len(self._kept)

    def matrix(self, name: str) -> np.ndarray:
        """(n, d) float64 of one score."""
        values = self._column(name)[self._kept]
        return values.reshape(len(values), -1).astype(np.float64)

    def widest(self) -> str | None:
        """The score to show as a plane, the first with at least two columns."""
        return next((name for name in best(self.names) if len(self) and self.matrix(name).shape[1] >= 2), None)

    def find(self, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
        """(m,) int: positions of frames here, -1 for those that have no score."""
        return places(self._keys, frame_key(walker, row))

    def _newest(self, model: int) -> Span:
        rows, name = fullest(self._groups, model)
        if not rows:
            raise NothingToDraw("no frame has been scored")
        return Span(name, max(0, rows - MOST_READ), rows)

    def _column(self, name: str) -> np.ndarray:
        return self._groups.read(name, self._span)


def best(names: Iterable[str]) -> list[str]:
    """Names of scores, first those that say best where a frame lies: `z`, then `point`, where members were drawn."""
    return sorted(names, key=lambda name: (name != "z", name != POINT))


@dataclass(frozen=True)
class Projection:
    """How a score of two or more columns becomes a plane: (matrix - middle) @ turn."""

    middle: np.ndarray  # (d,)
    turn: np.ndarray  # (d, 2)
    labels: tuple[str, str]


def projection(name: str, matrix: np.ndarray) -> Projection:
    """To the two columns of a score (n, d), or to its first two principal components when it has more."""
    if matrix.shape[1] == 2:
        return Projection(np.zeros(2), np.eye(2), (f"{name}, column 1", f"{name}, column 2"))
    middle = matrix.mean(axis=0)
    variance, axes = np.linalg.eigh(np.cov((matrix - middle).T))
    share = 100 * variance[::-1] / max(variance.sum(), 1e-300)
    labels = [f"{name}, principal component {i + 1} ({share[i]:.0f} % of variance)" for i in range(2)]
    return Projection(middle, axes[:, :-3:-1], (labels[0], labels[1]))


def plane(name: str, matrix: np.ndarray) -> Plane:
    """A score (n, d) as `projection` shows it."""
    to = projection(name, matrix)
    return Plane((matrix - to.middle) @ to.turn, to.labels)
