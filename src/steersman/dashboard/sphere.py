"""Stored fields on the sphere -> figure: the flow at the beginning, and where it differs most from a zonal one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.lineage import since_prepared
from steersman.data.stored import StoredVariable, TimedRows, blocks, variables

FIELD = "vorticity"
SHOWN = 99.5  # percent of the right map are within the colours: the first jet would leave the eddies pale


@figure("sphere", "The flow on the sphere", 40, lambda history: _field(history) is not None)
def draw(history: History) -> tuple[Figure, str]:
    """Vorticity maps of the first frame and of the sampled frame that is least zonal."""
    if not (stored := _field(history)):
        raise NothingToDraw("the frames hold no vorticity on a Gaussian grid (latitude, longitude)")
    first, most = _extremes(history, stored)
    begun, later = _when(history, (first, most))
    figure = style.sheet(2.6)
    left, right = figure.subplots(1, 2, subplot_kw={"projection": "mollweide"})
    bound = float(np.percentile(np.abs(most.field), SHOWN))
    _map(left, first.field, bound, f"first frame{begun}")
    shown = _map(right, most.field, bound, f"least zonal{later}")
    figure.colorbar(shown, ax=[left, right], label=stored.label, shrink=0.7, aspect=30, extend="both")
    growth = _waviness(most.field[None])[0] / max(_waviness(first.field[None])[0], 1e-30)
    return figure, f"Its deviation from the zonal mean reaches {growth:.2g} times that of the first frame."


def _field(history: History) -> StoredVariable | None:
    stored = variables(history).get(FIELD)
    return stored if stored and stored.sphere and len(stored.shape) == 2 else None


@dataclass(frozen=True)
class Sample:
    """A field (latitude, longitude), and the frame that it is of."""

    field: np.ndarray
    walker: int
    row: int


def _extremes(history: History, stored: StoredVariable) -> tuple[Sample, Sample]:
    first, most, largest = None, None, -1.0
    for block in blocks(history, stored):
        waviness = _waviness(block.values)
        highest = int(waviness.argmax())
        first = first or _sample(block, 0)
        if waviness[highest] > largest:
            largest, most = waviness[highest], _sample(block, highest)
    if first is None or most is None:
        raise NothingToDraw("no frame is published")
    return first, most


def _sample(block: TimedRows, at: int) -> Sample:
    return Sample(block.values[at], int(block.walker[at]), int(block.row[at]))


def _when(history: History, samples: Sequence[Sample]) -> Iterator[str]:
    """Words for titles: the simulated time since the prepared start, along the lineage of each; "" of one without."""
    time = variables(history).get("time")
    walker, row = (np.array([getattr(each, name) for each in samples]) for name in ("walker", "row"))
    for since in since_prepared(history, walker, row).tolist():
        yield f", {since:.3g} {time.units}" if time and math.isfinite(since) else ""


def _waviness(fields: np.ndarray) -> np.ndarray:
    """(n, latitude, longitude) -> (n,): the largest deviation from the mean along a circle of latitude."""
    return np.asarray(np.abs(fields - fields.mean(axis=2, keepdims=True)).max(axis=(1, 2)))


def _map(axes: Axes, field: np.ndarray, bound: float, title: str) -> QuadMesh:
    """A field (latitude from the north, longitude) on the whole sphere."""
    rows, columns = field.shape
    longitudes = np.linspace(-np.pi, np.pi, columns + 1)
    latitudes = np.arcsin(np.polynomial.legendre.leggauss(rows)[0][::-1])
    edges = np.concatenate([[np.pi / 2], (latitudes[1:] + latitudes[:-1]) / 2, [-np.pi / 2]])
    turned = np.roll(field, columns // 2, axis=1)  # longitude 0 in the middle
    mesh = axes.pcolormesh(longitudes, edges, turned, cmap="RdBu_r", vmin=-bound, vmax=bound, rasterized=True)
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks(np.radians([-60, -30, 0, 30, 60]))
    axes.grid(axis="y", linewidth=0.4)
    return mesh
