"""The landscape -> what is exactly true of it: populations by quadrature, passage times by a fine transfer matrix.

Nothing here looks at a trajectory, so that trajectories can be measured by it.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import eigsh, spsolve

from steersman.apps.six_wells.landscape import CENTRES, TURN, density, energy, wells
from steersman.apps.six_wells.simulation import TIMESTEP


def populations(grid: int = 400, timestep: float = TIMESTEP) -> np.ndarray:
    """(6,) float: the share of time that equilibrium spends in each well, within 0.3 rad of its centre.

    Args:
        grid: points per angle of the quadrature, which converges exponentially but for the edges of the wells.
        timestep: of the trajectories, see `density`; 0: none, for a particle that moves continuously.
    """
    points = _points(grid)
    weight = density(points, timestep)
    inside = wells(points)
    return np.array([weight[inside == well].sum() / weight.sum() for well in range(len(CENTRES))])


def first_passage_times(target: int, grid: int = 180) -> np.ndarray:
    """(6,) float: mean time from each well's centre until a particle enters the target well, in simulated time.

    Args:
        grid: points per angle; the error falls with its square.
    Source: the backward equation L tau = -1, tau = 0 in the target; the rates between neighbouring cells are those of
        Lie, Fackeldey and Weber (2013), A square root approximation of transition rates.
    """
    points = _points(grid)
    outside = np.flatnonzero(wells(points) != target)
    generator = transfer(grid)[outside][:, outside]
    times = np.zeros(len(points))
    times[outside] = spsolve(generator.tocsc(), -np.ones(len(outside)))
    at = np.round((CENTRES + np.pi) / TURN * grid - 0.5).astype(int) % grid
    return np.asarray(times[at[:, 0] * grid + at[:, 1]])


def time_scales(grid: int = 120, count: int = 6) -> np.ndarray:
    """(count,) float: the slowest relaxation times, longest first, in simulated time; the error falls with the square
    of `grid`, the points per angle."""
    root = np.exp(-energy(_points(grid)) / 2)
    symmetric = csc_array(diags_array(root) @ transfer(grid) @ diags_array(1 / root))
    rates = eigsh(symmetric, k=count + 1, sigma=0.01, return_eigenvectors=False)
    return np.asarray(-1 / np.sort(rates)[::-1][1:])


def transfer(grid: int) -> csr_array:
    """(grid^2, grid^2) rates between the cells of a grid; rows sum to 0, and exp(-energy) is stationary."""
    height, here = energy(_points(grid)), np.arange(grid**2).reshape(grid, grid)
    there = [np.roll(here, shift, axis).ravel() for axis in (0, 1) for shift in (-1, 1)]
    begin, end = np.tile(here.ravel(), 4), np.concatenate(there)
    rate = np.exp((height[begin] - height[end]) / 2) * (grid / TURN) ** 2
    moves = coo_array((rate, (begin, end)), shape=(grid**2, grid**2)).tocsr()
    return csr_array(moves - diags_array(moves.sum(axis=1)))


def _points(grid: int) -> np.ndarray:
    """(grid^2, 2) rad: the middles of the cells."""
    middle = (np.arange(grid) + 0.5) / grid * TURN - np.pi
    return np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).reshape(-1, 2)
