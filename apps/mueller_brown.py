"""The Mueller-Brown surface: overdamped Langevin dynamics between three minima, and what is exactly true of it.

Axes: n points, 2 coordinates. Energies in kT, 15 of the original units: the way out of well 0 is 7 kT high.
Source: Mueller and Brown (1979), Location of saddle points and minimum energy paths.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import spsolve

from steersman.stages.start import Start
from steersman.store import Variable

VARIABLES = {"time": Variable((), "1", "simulated time"), "position": Variable(("xy",), "1", "position")}
KT = 15.0
HEIGHT = np.array([-200.0, -100.0, -170.0, 15.0]) / KT
A, B, C = np.array([-1.0, -1.0, -6.5, 0.7]), np.array([0.0, 0.0, 11.0, 0.6]), np.array([-10.0, -10.0, -6.5, 0.7])
CENTRE = np.array([[1.0, 0.0], [0.0, 0.5], [-0.5, 1.5], [-1.0, 1.0]])
MINIMA = np.array([[-0.558, 1.442], [0.623, 0.028], [-0.050, 0.467]])
RADIUS = 0.15  # nearer to a minimum than this a point is in the well
TIMESTEP = 2e-4  # the stiffest direction relaxes within twenty of them
REPORT = 50  # steps between two frames
LOW, HIGH = (
    np.array([-1.7, -0.6]),
    np.array([1.3, 2.2]),
)  # of what is looked at; at its edges the energy is 10 kT or more
CELL, LEVEL = 0.1, 10.0  # of the yardstick's grid; kT above the lowest minimum


def energy(points: np.ndarray) -> np.ndarray:
    """(..., 2) -> (...) kT."""
    return np.asarray(_terms(points)[0].sum(-1))


def force(points: np.ndarray) -> np.ndarray:
    """-grad of the energy: (..., 2) -> (..., 2) kT."""
    term, x, y = _terms(points)
    return np.stack([-(term * (2 * A * x + B * y)).sum(-1), -(term * (B * x + 2 * C * y)).sum(-1)], axis=-1)


def wells(points: np.ndarray) -> np.ndarray:
    """(n, 2) -> (n,) int: the well that each point lies in, 0 to 2, or -1."""
    distance = np.linalg.norm(np.asarray(points, np.float64)[..., None, :] - MINIMA, axis=-1)
    return np.where(distance.min(-1) < RADIUS, distance.argmin(-1), -1)


def cells(points: np.ndarray) -> np.ndarray:
    """(n, 2) -> (n,) int: the cell of a grid of 0.1 if its centre lies below 10 kT, else -1."""
    grid = np.floor((np.asarray(points, np.float64) - LOW) / CELL).astype(int)
    shape = np.round((HIGH - LOW) / CELL).astype(int)
    inside = ((grid >= 0) & (grid < shape)).all(-1)
    height = energy(LOW + (grid + 0.5) * CELL) - energy(MINIMA[0])
    return np.where(inside & (height < LEVEL), grid[..., 0] * shape[1] + grid[..., 1], -1)


def run(start: Start, *, seed: int, steps: int = 1000) -> Iterator[tuple[float, np.ndarray]]:
    """Simulate one segment: dx = force dt + sqrt(2 dt) noise, at unit mobility.

    Args:
        start: goes on from the frame's `position`; at the prepared start from the minimum of well 0.
        seed: any integer >= 0.
        steps: of 0.0002 time units.
    Returns: (time since the segment's start, position (2,) float32) every 50 steps.
    """
    x, rng = np.array(start.frame.get("position", MINIMA[0]), np.float64), np.random.default_rng(seed)
    for done in range(REPORT, steps + 1, REPORT):
        for kick in rng.normal(scale=np.sqrt(2 * TIMESTEP), size=(REPORT, 2)):
            x = x + TIMESTEP * force(x) + kick
        yield done * TIMESTEP, x.astype(np.float32)


def populations(spacing: float = 0.01) -> np.ndarray:
    """(3,) float: the share of time that equilibrium spends in each well, by quadrature."""
    points, _ = _grid(spacing)
    weight = np.exp(energy(MINIMA[0]) - energy(points))
    inside = wells(points)
    return np.array([weight[inside == well].sum() / weight.sum() for well in range(len(MINIMA))])


def first_passage_times(target: int, spacing: float = 0.02) -> np.ndarray:
    """(3,) float: mean time from each minimum until a particle enters the target well.

    Args:
        spacing: of the grid; the error falls with its square.
    Source: as six_wells.exact, with walls at the edges of the grid.
    """
    points, _ = _grid(spacing)
    outside = np.flatnonzero(wells(points) != target)
    times = np.zeros(len(points))
    times[outside] = spsolve(transfer(spacing)[outside][:, outside].tocsc(), -np.ones(len(outside)))
    nearest = [np.linalg.norm(points - minimum, axis=1).argmin() for minimum in MINIMA]
    return np.asarray(times[nearest])


def transfer(spacing: float) -> csr_array:
    """(n, n) rates between the cells of a grid with walls; rows sum to 0, and exp(-energy) is stationary."""
    points, shape = _grid(spacing)
    height, here = energy(points), np.arange(len(points)).reshape(shape)
    right, up = (here[:-1].ravel(), here[1:].ravel()), (here[:, :-1].ravel(), here[:, 1:].ravel())
    pairs = np.concatenate([right, up], axis=1)
    begin, end = np.concatenate([pairs, pairs[::-1]], axis=1)
    rate = np.exp((height[begin] - height[end]) / 2) / spacing**2
    moves = coo_array((rate, (begin, end)), shape=(len(points), len(points))).tocsr()
    return csr_array(moves - diags_array(moves.sum(axis=1)))


def _terms(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(..., 4) each: the four terms in kT, and the distances from their centres in x and y."""
    x, y = np.moveaxis(np.asarray(points, np.float64)[..., None, :] - CENTRE, -1, 0)
    return HEIGHT * np.exp(A * x * x + B * x * y + C * y * y), x, y


def _grid(spacing: float) -> tuple[np.ndarray, tuple[int, int]]:
    """(n, 2) the middles of cells, and how many there are of x and y."""
    x, y = (np.arange(low + spacing / 2, high, spacing) for low, high in zip(LOW, HIGH, strict=True))
    return np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2), (len(x), len(y))
