"""Coefficients -> coefficients a step later: the shallow-water equations with gravity waves taken exactly (ETDRK4).

Rows are (columns, members, 2, 2, positions), see Packing; columns: divergence, vorticity, geopotential, and
geopotential times concentration where there is a tracer. What is written to in a step is kept for the next.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from steersman.apps.shallow_water import cuda_graph
from steersman.apps.shallow_water.cases import RADIUS
from steersman.apps.shallow_water.derivatives import RowDerivatives
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.models.sphere.packed import GridProducts, Packing

TERMS = 20  # of the series of the phi functions near 0
ON_GRID_BYTES = 2**21  # what a cache holds: 16 members at once take half the time at T15 and T21, 8 at T42 0.8 of it
INNER = [1, 0, 2, 3]  # vorticity and divergence change places

Propagator = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass
class Workspace:
    """What a step of so many members writes to.

    Attributes:
        grid: the way over the grid.
        states: room for six.
        replayed: the step as a CUDA graph, which knows this memory by its addresses.
    """

    grid: GridProducts
    states: tuple[torch.Tensor, ...]
    replayed: cuda_graph.Function | None = None


class Scheme:
    """One step of fixed length, for any number of members.

    Args:
        columns: 3, or 4 with a tracer.
        step_s: seconds.
        damping: (order, degree - order), what coefficients are multiplied with in each step.
        mean_geopotential: of the gravity waves that are taken exactly, m2/s2.
        ground: coefficients (order, degree - order, 1) of its geopotential, m2/s2; None: it is flat.
        planetary: of the Coriolis parameter, 1/s.
    Source: Cox and Matthews (2002), here with the exponentials of the linear gravity waves, which are diagonal in the
        degree.
    """

    def __init__(
        self, sphere: SphericalHarmonics, columns: int, *, step_s: float, damping: np.ndarray,
        mean_geopotential: float, ground: torch.Tensor | None, planetary: torch.Tensor,
    ) -> None:  # fmt: skip
        self._sphere, self._packing = sphere, Packing(sphere)
        self._columns, self._inner = columns, torch.tensor(INNER[:columns], device=sphere.device)
        self._calculus = RowDerivatives(sphere, self._packing, RADIUS)
        self._half_laplace = self._calculus.laplace / 2
        self._downhill = None if ground is None else self._packing.rows(ground)[0] * self._calculus.laplace
        # Products are of the absolute vorticity, and of the geopotential less its mean, whose part is in the waves.
        background = torch.zeros(*sphere.degree.shape, columns - 1, dtype=planetary.dtype, device=sphere.device)
        background[:, :, 0] = planetary[:, :, 0]
        background[0, 0, 1] = -math.sqrt(2) * mean_geopotential
        self._background = self._packing.rows(background)[:, None]
        self._half, self._first, *self._whole = (
            self._packed(each) for each in propagators(sphere.degree, step_s, mean_geopotential, damping)
        )
        self._kept: dict[int, Workspace] = {}  # by thread

    def __getstate__(self) -> dict[str, Any]:
        """A copy takes memory of its own: products know theirs by its addresses."""
        return self.__dict__ | {"_kept": {}}

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """Complex (order, degree - order, columns x members), vorticity before divergence, a step later.

        With few members on a GPU as one CUDA graph, else as `launched`.
        """
        if not cuda_graph.pays(state.device, state.numel()):
            return self.launched(state)
        workspace = self._workspace(state.shape[2] // self._columns)
        if workspace.replayed is None:
            workspace.replayed = cuda_graph.replayed(self.launched, state)
        return workspace.replayed(state)

    def launched(self, state: torch.Tensor) -> torch.Tensor:
        """The same, one kernel after another."""
        before, n1, n2, last, coasting, stage = self._workspace(state.shape[2] // self._columns).states
        self._rows(state, stage, before)
        self._tendency(before, n1)
        _apply(self._half, before, coasting)
        _add_to(coasting, self._first, n1, stage)
        self._tendency(stage, n2)
        _add_to(coasting, self._first, n2, coasting)
        self._tendency(coasting, last)
        _apply(self._half, stage, coasting)
        n2.add_(last)  # from here, n2 + n3
        _add_to(coasting, self._first, torch.lerp(n1, last, 2.0, out=last), stage)  # 2 n3 - n1
        self._tendency(stage, last)
        _apply(self._whole[0], before, stage)
        for propagator, derivative in zip(self._whole[1:], (n1, n2, last), strict=True):
            _add_to(stage, propagator, derivative, stage)
        return self._state(stage, coasting)

    def tendency(self, state: torch.Tensor) -> torch.Tensor:
        """d(state)/dt of everything but the linear gravity waves."""
        before, derivative, room, *_ = self._workspace(state.shape[2] // self._columns).states
        self._rows(state, room, before)
        self._tendency(before, derivative)
        return self._state(derivative, room)

    def _tendency(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        grid = self._workspace(rows.shape[1]).grid
        self._calculus.wind(rows[1], rows[0], grid.rows[:2])
        torch.add(rows[1:], self._background, out=grid.rows[2:])
        spectrum = grid(_fluxes)
        eastward, northward, twice_energy = spectrum[0:-1:2], spectrum[1::2], spectrum[-1]
        self._calculus.curl(eastward[0], northward[0], out[0])
        self._calculus.convergence(eastward, northward, out[1:])
        out[0].addcmul_(self._half_laplace, twice_energy)
        if self._downhill is not None:
            out[0] += self._downhill

    def _rows(self, state: torch.Tensor, room: torch.Tensor, out: torch.Tensor) -> None:
        self._packing.rows(state, out=room.flatten(0, 1))
        torch.index_select(room, 0, self._inner, out=out)

    def _state(self, rows: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        return self._packing.spectral(torch.index_select(rows, 0, self._inner, out=room).flatten(0, 1))

    def _workspace(self, members: int) -> Workspace:
        """This thread's for so many members; of one number of them at a time."""
        thread = threading.get_ident()
        kept = self._kept.get(thread)
        if kept is None or kept.grid.rows.shape[1] != members:
            columns, sines = self._columns, np.sin(self._sphere.latitudes[: self._sphere.rows // 2])
            sizes = {"fields": columns + 1, "products": 2 * columns - 1, "members": members}
            sizes |= {"together": _together(members, 3 * columns, self._sphere)}
            grid = GridProducts(self._sphere, self._packing, factor=1 / (1 - sines**2), **sizes)
            room = self._half_laplace.new_zeros(6, columns, members, 2, 2, self._packing.positions)
            self._kept[thread] = kept = Workspace(grid, room.unbind(0))
        return kept

    def _packed(self, factors: Sequence[np.ndarray]) -> Propagator:
        """Factors of f(L), see `propagators`, of rows: (columns, 1, 1, 2, positions), and twice (2, positions)."""
        straight, at_rest, speeding, rising = (self._packing.factors(each) for each in factors)
        diagonal = torch.stack((straight, at_rest, straight, at_rest)[: self._columns])
        return diagonal[:, None, None], speeding, rising


def propagators(
    degree: np.ndarray, step_s: float, mean_geopotential: float, damping: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Functions f of the step times L, where L couples divergence and geopotential with frequency w: L^2 = -w^2.

    Returns: of half a step and what it adds, then of a whole step and what its three derivatives add: Re f on the
        diagonal, f(0) of what L leaves alone, and Im f / w times L beside it, from geopotential to divergence and from
        divergence to geopotential; (order, degree - order) each.
    """
    laplace = degree * (degree + 1) / RADIUS**2
    frequency = np.sqrt(laplace * mean_geopotential)
    z = 1j * frequency * step_s
    one, two, three = (phi(n, z) for n in (1, 2, 3))
    still = np.ones_like(frequency)
    functions = (
        (still, np.exp(z / 2)),
        (still * step_s / 2, step_s / 2 * phi(1, z / 2)),
        (damping, np.exp(z) * damping),
        (damping * step_s / 6, step_s * (one - 3 * two + 4 * three) * damping),
        (damping * step_s / 3, step_s * (2 * two - 4 * three) * damping),
        (damping * step_s / 6, step_s * (4 * three - two) * damping),
    )
    over = np.where(frequency > 0, 1 / np.where(frequency > 0, frequency, 1), 0)
    return [(f.real, at_rest, f.imag * over * laplace, -f.imag * over * mean_geopotential) for at_rest, f in functions]


def _together(members: int, fields: int, sphere: SphericalHarmonics) -> int:
    """How many members are on the grid at once: on a CPU as many as its cache holds the fields and products of."""
    if sphere.device.type != "cpu":
        return members
    one = fields * sphere.rows * sphere.columns * torch.empty(0, dtype=sphere.dtype).element_size()
    return max(n for n in range(1, members + 1) if members % n == 0 and (n == 1 or n * one <= ON_GRID_BYTES))


def _fluxes(fields: torch.Tensor, products: torch.Tensor) -> None:
    """Winds and what they carry -> its fluxes along both; and the square of the wind."""
    winds = fields[:2]
    torch.mul(fields[2:, None], winds, out=torch.unflatten(products[:-1], 0, (-1, 2)))
    torch.mul(winds[0], winds[0], out=products[-1]).addcmul_(winds[1], winds[1])


def _apply(propagator: Propagator, rows: torch.Tensor, out: torch.Tensor) -> None:
    """Write f(L) of rows."""
    torch.mul(propagator[0], rows, out=out)
    _cross(propagator, rows, out)


def _add_to(base: torch.Tensor, propagator: Propagator, rows: torch.Tensor, out: torch.Tensor) -> None:
    """Write the sum of a base and f(L) of rows."""
    torch.addcmul(base, propagator[0], rows, out=out)
    _cross(propagator, rows, out)


def _cross(propagator: Propagator, rows: torch.Tensor, out: torch.Tensor) -> None:
    _, speeding, rising = propagator
    out[0].addcmul_(speeding, rows[2])
    out[2].addcmul_(rising, rows[0])


def phi(n: int, z: np.ndarray) -> np.ndarray:
    """phi_n(z) = (exp(z) - sum of its first n Taylor terms) / z^n, by its series near 0."""
    near = np.abs(z) < 1
    result = np.zeros_like(z)
    term = np.full(near.sum(), 1 / math.factorial(n), dtype=z.dtype)
    for j in range(TERMS):
        result[near] += term
        term = term * z[near] / (n + j + 1)
    far = z[~near]
    value = np.exp(far)
    for j in range(n):
        value = (value - 1 / math.factorial(j)) / far
    result[~near] = value
    return result
