"""scores.zarr -> the map: every frame that the newest model scored as a point of a plane, in memory, as it grows.

A frame takes 16 bytes: two coordinates, the position of its segment, and its row. Other columns are read when somebody
colours by them. Axes: n scored frames in the order in which they were scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steersman.data.clock import WallTime
from steersman.data.scored import Projection, best, projection
from steersman.data.segment_table import SegmentTable
from steersman.journal.scoreboard import fullest
from steersman.store import Frames, Span

MOST_FRAMES = 10_000_000  # the newest ones
BLOCK = 1_000_000  # rows that are read at a time
FITTED = 100_000  # frames that decide the axes
REFIT = 4  # the axes are fitted again when there are so many times the frames
CLUSTERS, CLUSTERED = 8, 20_000  # and the frames that decide them
KEYS = ("walker", "row")


@dataclass(frozen=True)
class Axes:
    """The score that is shown, and how it becomes a plane; None: a scalar score over time."""

    name: str
    projection: Projection | None

    @property
    def labels(self) -> tuple[str, str]:
        return self.projection.labels if self.projection else ("wall time of the frame", self.name)


class PointCloud:
    """Scored frames under the model that the run used last.

    Attributes:
        model: version of the model, 0 for scores without one.
        behind: frames that have scores and are not read yet; the next call reads on.
        axes: what the plane shows; None before anything was read.
        generation: another number means other coordinates: a new model, or axes that were fitted again.
        x, y: (n,) float32; y of a scalar score is the score, and x is NaN: the moment, see `place`.
        segment, row: (n,) int32, position of the segment that made the frame (-1: none that counts), and its row.
    """

    def __init__(self, path: Path) -> None:
        self._groups = Frames(path)
        self._group, self._first = "", 0
        self.axes: Axes | None = None
        self._fitted = 0
        self._extra: dict[str, np.ndarray] = {}
        self._centres: tuple[int, np.ndarray] | None = None
        self._scalars: list[str] = []
        self.model = self.generation = self.behind = self._rows = 0
        self._x, self._y = np.empty(0, np.float32), np.empty(0, np.float32)
        self._segment, self._row = np.empty(0, np.int32), np.empty(0, np.int32)

    def __len__(self) -> int:
        return self._rows

    @property
    def scores(self) -> list[str]:
        """Names of the scores that have one number a frame: to colour by."""
        return self._scalars if self._group else []

    @property
    def x(self) -> np.ndarray:
        return self._x[: self._rows]

    @property
    def y(self) -> np.ndarray:
        return self._y[: self._rows]

    @property
    def segment(self) -> np.ndarray:
        return self._segment[: self._rows]

    @property
    def row(self) -> np.ndarray:
        return self._row[: self._rows]

    def catch_up(self, model: int, scored: int, table: SegmentTable) -> None:
        """Read what was scored since, at most BLOCK frames; all again when the model, or the axes, are others.

        Args:
            scored: how many frames have scores under the model, as the journal knows.
            table: the segments of the same moment.
        """
        rows, group = fullest(self._groups, model)
        rows = min(rows, scored)
        self.behind = 0
        if not rows:
            return
        read = self._first + self._rows
        if (group, model) != (self._group, self.model) or rows < read or rows > REFIT * max(1, self._fitted) > 0:
            self._begin(group, model, rows)
            read = self._first
        if read < rows:
            end = min(read + BLOCK, rows)
            self._take(Span(group, read, end), table)
            self.behind = rows - end

    def place(self, at: np.ndarray | slice, table: SegmentTable, wall: WallTime) -> tuple[np.ndarray, np.ndarray]:
        """(m,) float32 x and y of some frames; hours of wall time where x is a moment."""
        x, y = self.x[at], self.y[at]
        if self.axes is not None and self.axes.projection is None:
            x = (wall.elapsed(self.moments(at, table)) / 3600).astype(np.float32)
        return x, y

    def moments(self, at: np.ndarray | slice, table: SegmentTable) -> np.ndarray:
        """(m,) float64: when some frames were made, seconds since 1970; NaN for those of no segment that counts."""
        segment = self.segment[at]
        known = segment >= 0
        times = np.full(len(segment), np.nan)
        times[known] = table.moments(segment[known], self.row[at][known])
        return times

    def score(self, name: str, at: np.ndarray) -> np.ndarray:
        """(m,) float32: a scalar score of some frames."""
        have = self._extra.get(name, np.empty(0, np.float32))
        if len(have) < self._rows:
            span = Span(self._group, self._first + len(have), self._first + self._rows)
            fresh = self._groups.read(name, span).reshape(span.rows).astype(np.float32)
            have = self._extra[name] = np.concatenate([have, fresh])
        return np.asarray(have[at])

    def clusters(self, at: np.ndarray) -> np.ndarray:
        """(m,) uint8: which of the clusters of the plane (k-means) some frames belong to."""
        if self._centres is None or self._centres[0] != self.generation:
            sample = np.stack([self.x, self.y], axis=1)[:: max(1, self._rows // CLUSTERED)]
            sample = sample[np.isfinite(sample).all(axis=1)]  # a frame without a score has no place
            self._centres = self.generation, _centres(sample, min(CLUSTERS, len(sample)))
        return _nearest(np.stack([self.x[at], self.y[at]], axis=1), self._centres[1])

    def of_segments(self, wanted: Sequence[int]) -> np.ndarray:
        """(m,) int: where the frames of some segments stand."""
        among = np.zeros(int(self.segment.max(initial=0)) + 2, bool)  # the last one: of no segment
        among[[at for at in wanted if at < len(among) - 1]] = True
        return np.flatnonzero(among[self.segment])

    def _begin(self, group: str, model: int, rows: int) -> None:
        self._group, self.model, self._first = group, model, max(0, rows - MOST_FRAMES)
        self.generation += 1
        self._forget(rows - self._first)
        kinds = {name: self._groups.read(name, Span(group, 0, 1)) for name in self._groups.variables(group)}
        shapes = {name: row[0].size for name, row in kinds.items() if name not in KEYS}
        self._scalars = [name for name, size in shapes.items() if size == 1]
        planes = best(name for name, size in shapes.items() if size > 1)
        self.axes, self._fitted = None, rows
        if planes:
            self.axes = self._fit(planes[0], rows)
        elif self._scalars:
            name = "error" if self._scalars == ["error"] else next(n for n in self._scalars if n != "error")
            self.axes = Axes(name, None)

    def _fit(self, name: str, rows: int) -> Axes:
        """The two columns of a score, or its first two principal components over frames of the whole run."""
        few = FITTED // 10
        firsts = range(self._first, rows, max(few, (rows - self._first) // 10))
        parts = [self._matrix(name, Span(self._group, first, min(first + few, rows))) for first in firsts]
        values = np.concatenate(parts)
        values = values[np.isfinite(values).all(axis=1)]
        if len(values) < 2:
            values = np.zeros((2, values.shape[1]))
        return Axes(name, projection(name, values))

    def _take(self, span: Span, table: SegmentTable) -> None:
        if self.axes is None:
            return
        end = self._rows + span.rows
        if end > len(self._x):
            for name in ("_x", "_y", "_segment", "_row"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.empty(max(end - len(column), end // 2), column.dtype)]))
        values, new, to = self._matrix(self.axes.name, span, np.float32), slice(self._rows, end), self.axes.projection
        if to is None:
            self._x[new], self._y[new] = np.nan, values[:, 0]
        else:
            flat = (values - to.middle.astype(np.float32)) @ to.turn.astype(np.float32)
            self._x[new], self._y[new] = flat[:, 0], flat[:, 1]
        walker, row = (self._groups.read(name, span) for name in KEYS)
        self._segment[new], self._row[new] = table.of_frames(walker, row), row
        self._rows = end

    def _matrix(self, name: str, span: Span, kind: type = np.float64) -> np.ndarray:
        return self._groups.read(name, span).reshape(span.rows, -1).astype(kind)

    def _forget(self, rows: int) -> None:
        self._rows, self._scalars = 0, []
        self._extra.clear()
        self._x, self._y = np.empty(rows, np.float32), np.empty(rows, np.float32)
        self._segment, self._row = np.empty(rows, np.int32), np.empty(rows, np.int32)


def _centres(points: np.ndarray, number: int) -> np.ndarray:
    """(number, 2): of clusters, by Lloyd's iterations from points that lie evenly along x.

    Libraries that have them take 0.4 s (SciPy) or a second (scikit-learn) to import, for each report.
    """
    centres = points[points[:, 0].argsort()[np.linspace(0, len(points) - 1, number).astype(int)]]
    for _ in range(20):
        own = _nearest(points, centres)
        counts = np.bincount(own, minlength=number)
        sums = [np.bincount(own, values, number) for values in points.T]
        centres = np.where(counts[:, None] > 0, np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None], centres)
    return np.asarray(centres[centres[:, 0].argsort()], np.float32)


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(m,) uint8: the nearest of the centres; 0 if there are none."""
    if not len(centres):
        return np.zeros(len(points), np.uint8)
    return np.asarray(((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1), np.uint8)
