"""One version of a bias: a potential along one to three coordinates, in kT, as a sum of kernels and as a table."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

MOST_NODES = (1000, 120, 32)  # of the table along each axis, by dimensions
FEWEST_NODES = 8
TOGETHER = 64  # kernels whose distances from all are computed at once
BEYOND = 8  # nodes past a period: a natural spline forgets its end within so many


class Layered(Protocol):
    """A model whose coordinate is one of dense layers with tanh between them."""

    def dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]: ...


@dataclass(frozen=True, eq=False)
class Bias:
    """One version of a bias: V(z) in kT, a natural cubic spline through a table, constant beyond it.

    Args:
        model: version of the model whose coordinate this is; 0: of none.
        barrier_kT, exploring: as of `Opes`.
        centres: (k, d) float32, of the kernels.
        widths: (k, d) float32, their standard deviations.
        heights: (k,) float64, the share of the weight that each stands for.
        periods: (d,) float64; 0 of a dimension that has none.
        effective: size of the sample, for the kernels' width; what frames are worth says `Reweighted.effective`.
        share: of the energy that pushes; less than 1 in a softer copy.
    """

    model: int
    barrier_kT: float
    exploring: bool
    centres: np.ndarray
    widths: np.ndarray
    heights: np.ndarray
    periods: np.ndarray
    effective: float = 0.0
    share: float = 1.0

    def softer(self, share: float) -> Self:
        """A copy with this share of the energy everywhere."""
        return replace(self, share=share)

    @property
    def dimensions(self) -> int:
        return int(self.centres.shape[1])

    @cached_property
    def axes(self) -> tuple[np.ndarray, ...]:
        """The nodes of the table along each dimension, evenly spaced; of a period, a little more than that."""
        reach = math.sqrt(2 * (self.barrier_kT + 2))  # widths from a centre to where a kernel matters no more
        found = []
        for j, period in enumerate(self.periods):
            centre, width = self.centres[:, j].astype(float), self.widths[:, j].astype(float)
            low, high = (0.0, period) if period else ((centre - reach * width).min(), (centre + reach * width).max())
            nodes = math.ceil((high - low) / width.min()) + 1
            nodes = min(max(nodes, FEWEST_NODES), MOST_NODES[self.dimensions - 1])
            step = (high - low) / (nodes - 1)
            beyond = BEYOND if period else 0
            found.append(low + step * np.arange(-beyond, nodes + beyond))
        return tuple(found)

    @cached_property
    def table(self) -> np.ndarray:
        """V at the nodes, one axis for each dimension, float64 in kT: from -barrier_kT, where nothing was sampled."""
        bias_factor = self.barrier_kT
        strength = bias_factor - 1 if self.exploring else 1 - 1 / bias_factor
        density = self._on_the_grid() / self._at_centres().mean()
        return np.asarray(self.share * strength * np.log(density + math.exp(-self.barrier_kT / strength)))

    def density(self, at: np.ndarray, dimension: int = 0) -> np.ndarray:
        """(n,): probability density of the unbiased system along one dimension, as this version was made of it."""
        width = self.widths[:, dimension].astype(float) * math.sqrt(2 * math.pi)
        kernels = np.exp(-0.5 * self._distance(at[:, None], dimension) ** 2) / width
        return np.asarray(kernels @ self.heights.astype(float))

    def energy(self, z: Any) -> np.ndarray:
        """V, (...) float64 in kT, at z (..., d), or (...) where d is 1."""
        return self._spline(z, None)

    def gradient(self, z: Any) -> np.ndarray:
        """dV/dz in kT, in the shape of z; 0 along a dimension that has left the table."""
        slopes = [self.slope(z, j) for j in range(self.dimensions)]
        return np.stack(slopes, axis=-1).reshape(np.shape(z))

    def slope(self, z: Any, dimension: int) -> np.ndarray:
        """dV/dz along one dimension, (...) float64 in kT, at z (..., d)."""
        return self._spline(z, dimension)

    def along(self, model: Layered | None = None) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """What pushes a simulation of your own: inputs x (n,) of the model -> the energy there, and its gradient dV/dx
        (n,), float64 in kT.

        Args:
            model: `start.model`, whose coordinate is biased; None: x is the coordinate.
        Raises: BadInput: this model is another kind, which no bias can follow.
        """
        layers = [] if model is None else model.dense_layers()

        def push(x: np.ndarray) -> tuple[float, np.ndarray]:
            z, slope = np.asarray(x, float), np.eye(len(x))
            for number, (weights, offsets) in enumerate(layers):
                if number:
                    z = np.tanh(z)
                    slope = (1 - z**2)[:, None] * slope
                z, slope = weights @ z + offsets, weights @ slope
            return self.energy(z[None]).item(), self.gradient(z[None])[0] @ slope

        return push

    def to_bytes(self) -> bytes:
        """The version as an .npz file, whole."""
        file = io.BytesIO()
        np.savez(
            file, model=self.model, barrier_kT=float(self.barrier_kT), exploring=self.exploring, centres=self.centres,
            widths=self.widths, heights=self.heights, periods=self.periods, effective=self.effective,
        )  # fmt: skip
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` gave. Raises: ValueError, KeyError: it is something else."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return cls(
                int(file["model"]), float(file["barrier_kT"]), bool(file["exploring"]), file["centres"], file["widths"],
                file["heights"], file["periods"], float(file["effective"]),
            )  # fmt: skip

    def wrapped(self, z: np.ndarray) -> np.ndarray:
        """(n, d): z within the table, periods removed."""
        period = np.where(self.periods > 0, self.periods, np.inf)
        low, high = (np.array([axis[end] for axis in self.axes]) for end in (0, -1))
        return np.asarray(np.clip(np.where(self.periods > 0, z % period, z), low, high))

    def _rows(self, z: Any) -> np.ndarray:
        z = np.asarray(z, np.float64)
        return np.asarray(z[..., None] if self.dimensions == 1 and (z.ndim < 2 or z.shape[-1] != 1) else z)

    def _spline(self, z: Any, along: int | None) -> np.ndarray:
        z = self._rows(z)
        rows = z.reshape(-1, self.dimensions)
        at = self.wrapped(rows)
        nu = None if along is None else [int(j == along) for j in range(self.dimensions)]
        value = self._coefficients(at, nu=nu)
        if along is not None and not self.periods[along]:
            value = np.where(at[:, along] == rows[:, along], value, 0.0)
        return np.asarray(value).reshape(z.shape[:-1])

    @cached_property
    def _coefficients(self) -> Any:
        from scipy.interpolate import NdBSpline, make_interp_spline

        values, knots = self.table, []
        for j, axis in enumerate(self.axes):
            spline = make_interp_spline(axis, np.moveaxis(values, j, 0), k=3, bc_type="natural")
            values = np.moveaxis(spline.c, 0, j)
            knots.append(spline.t)
        return NdBSpline(tuple(knots), values, k=3)

    def _on_the_grid(self) -> np.ndarray:
        """Sum of the kernels at the nodes."""
        factors = []
        for j, axis in enumerate(self.axes):
            distance = self._distance(axis[:, None], j)
            factors.append(np.exp(-0.5 * distance**2) / self.widths[:, j].astype(float))
        factors[0] = factors[0] * self.heights.astype(float)
        *before, last = factors
        product = np.ones((1, last.shape[1]))
        for factor in before:
            product = (product[:, None] * factor).reshape(-1, factor.shape[1])
        density = product @ last.T
        return np.asarray(density.reshape([len(factor) for factor in factors]))

    def _at_centres(self) -> np.ndarray:
        """(k,) sum of the kernels at the centre of each: some rows at a time, which stay in the cache."""
        height = self.heights.astype(float) / self.widths.astype(float).prod(axis=1)
        sums = []
        for first in range(0, len(height), TOGETHER):
            some = self.centres[first : first + TOGETHER].astype(float)
            squares = sum(self._distance(some[:, j : j + 1], j) ** 2 for j in range(self.dimensions))
            sums.append(np.exp(-0.5 * squares) @ height)
        return np.concatenate(sums)

    def _distance(self, at: np.ndarray, dimension: int) -> np.ndarray:
        """(n, k): how many widths numbers (n, 1) along a dimension are from each centre."""
        centre, width = self.centres[:, dimension].astype(float), self.widths[:, dimension].astype(float)
        return np.asarray(nearest(at - centre, self.periods[dimension : dimension + 1]) / width)


def nearest(difference: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """Of all images of a difference the smallest."""
    if not periods.any():
        return difference
    period = np.where(periods > 0, periods, np.inf)
    return np.asarray(difference - np.where(periods > 0, periods, 0.0) * np.round(difference / period))
