"""Angles -> energy, force, well and cell: six Gaussian wells in a flat torus.

Axes: n points, 2 angles in radians, periodic in 2 pi. Energies in kT. The shape of alanine dipeptide's (phi, psi) map,
with barriers of 4 to 8 kT between wells that plain sampling crosses rarely.
"""

from __future__ import annotations

import numpy as np

TURN = 2 * np.pi
CENTRES = np.array([[-1.4, 1.2], [-2.6, 2.7], [-1.3, -0.6], [1.0, 0.9], [1.1, -1.2], [2.6, -2.4]])  # rad
DEPTHS = np.array([9.0, 8.0, 8.0, 8.5, 8.0, 7.5])  # kT below the plain
WIDTHS = np.array([0.55, 0.5, 0.5, 0.45, 0.45, 0.5])  # rad
RADIUS = 0.3  # rad; nearer to a centre than this a point is in the well
CELLS = 24  # per angle
LEVEL = 8.5  # kT above the minimum: a cell whose centre lies lower is worth a visit; the plain lies at 9.2


def energy(points: np.ndarray) -> np.ndarray:
    """(..., 2) rad -> (...) kT."""
    return np.asarray(-(_pull(_apart(points)) * WIDTHS**2).sum(-1))


def force(points: np.ndarray) -> np.ndarray:
    """-grad of the energy: (..., 2) rad -> (..., 2) kT/rad."""
    apart = _apart(points)
    return np.asarray(-np.einsum("...w,...wa->...a", _pull(apart), apart))


def density(points: np.ndarray, timestep: float) -> np.ndarray:
    """(..., 2) rad -> (...): how often a particle is there that moves by Euler's steps; not normalised, to first order.

    Long steps make a well wider than exp(-energy) has it: its population within a radius falls by 2 % at 0.002.

    Args:
        timestep: of x + timestep * force + sqrt(2 * timestep) * noise; 0 gives exp(-energy).
    Source: Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods.
    """
    apart = _apart(points)
    curvature = (_pull(apart) * (2 - np.einsum("...a,...a->...", apart, apart) / WIDTHS**2)).sum(-1)
    correction = np.square(force(points)).sum(-1) / 4 - curvature / 2
    return np.asarray(np.exp(timestep * correction - energy(points)))


def wells(points: np.ndarray) -> np.ndarray:
    """(n, 2) rad -> (n,) int: the well that each point lies in, 0 to 5, or -1."""
    distance = np.linalg.norm(_apart(points), axis=-1)
    return np.where(distance.min(-1) < RADIUS, distance.argmin(-1), -1)


def grid_cells(points: np.ndarray, per_angle: int = CELLS) -> np.ndarray:
    """(n, 2) rad -> (n,) int: the cell of a grid of `per_angle` x `per_angle`."""
    grid = np.floor((np.asarray(points, np.float64) + np.pi) / TURN * per_angle).astype(int) % per_angle
    return np.asarray(grid[..., 0] * per_angle + grid[..., 1])


def cells(points: np.ndarray) -> np.ndarray:
    """(n, 2) rad -> (n,) int: the cell of a grid of 24 x 24 if its centre lies below 8.5 kT, else -1."""
    cell = grid_cells(points)
    return np.where(reachable()[cell], cell, -1)


def reachable() -> np.ndarray:
    """(576,) bool: the cells whose centres lie below 8.5 kT; 350 of them."""
    middle = (np.arange(CELLS) + 0.5) / CELLS * TURN - np.pi
    height = energy(np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).reshape(-1, 2))
    return np.asarray(height - height.min() < LEVEL)


def _apart(points: np.ndarray) -> np.ndarray:
    """(..., 2) -> (..., 6, 2): from each centre to the point, the short way round."""
    apart = np.asarray(points, np.float64)[..., None, :] - CENTRES
    return np.asarray(apart - TURN * np.rint(apart / TURN))


def _pull(apart: np.ndarray) -> np.ndarray:
    """(..., 6, 2) -> (..., 6) kT/rad^2: how strongly each well pulls, by the distance from its centre."""
    return np.asarray(DEPTHS / WIDTHS**2 * np.exp(-np.einsum("...a,...a->...", apart, apart) / (2 * WIDTHS**2)))
