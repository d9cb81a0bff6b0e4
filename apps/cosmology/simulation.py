"""Universe, seed -> density of dark matter at four times: JaxPM's particle mesh, in a periodic cube.

A walker compiles the two steps when it makes its first universe, and keeps them for all that follow.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from steersman.apps.cosmology.universe import Universe
from steersman.store import Variable
from steersman.system.errors import BadValue

VOXEL_MPC_H = 4.0
SCALE_FACTORS = (0.25, 0.4, 0.67, 1.0)  # redshifts 3, 1.5, 0.5 and 0
STEPS = 4  # from one of them to the next

VARIABLES = {
    "density": Variable(("scale_factor", "x", "y", "z"), "1", "density over its mean, in voxels of 4 Mpc/h"),
    "summary": Variable(("crop", "number"), "1", "logarithms of variance and power spectrum"),
    "point": Variable(("parameter",), "1", "Omega_M, sigma_8, n_s, from 0 to 1"),
}


def density(universe: Universe, seed: int, mesh: int = 64) -> np.ndarray:
    """Simulate a universe from its first fluctuations on.

    Args:
        seed: of the fluctuations; 0 to 2^64 - 1.
        mesh: voxels along an edge, and particles; even.
    Returns: (4, mesh, mesh, mesh) float32, density over its mean at SCALE_FACTORS; periodic.
    Raises: BadValue: a mesh that is odd or below 8, or a density of matter below that of baryons.
    """
    return evolved(universe, linear(universe, seed, mesh))


def linear(universe: Universe, seed: int, mesh: int = 64) -> np.ndarray:
    """Draw the density contrast that linear theory has today: (mesh, mesh, mesh) float32, with mean 0.

    Raises: BadValue: see `density`.
    """
    if mesh < 8 or mesh % 2:
        raise BadValue("mesh", mesh, "give an even number, at least 8")
    words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    with _quiet():
        power = linear_power(universe, particle_mesh().WAVENUMBERS)
        return np.asarray(particle_mesh().linear(power, words, mesh, VOXEL_MPC_H))


def linear_power(universe: Universe, wavenumbers: np.ndarray) -> np.ndarray:
    """The spectrum of that contrast, (Mpc/h)^3, at wavenumbers (n,) in h/Mpc, float32.

    Source: Eisenstein and Hu (1998), as in jax-cosmo.
    """
    with _quiet():
        return np.asarray(particle_mesh().linear_power(_parameters(universe), wavenumbers.astype(np.float32)))


def evolved(
    universe: Universe, linear: np.ndarray, scale_factors: tuple[float, ...] = SCALE_FACTORS, steps: int = STEPS
) -> np.ndarray:
    """Let gravity make density of a linear contrast (mesh, mesh, mesh).

    Args:
        scale_factors: times from 0.1 on, rising; today is 1.
        steps: of the integration, from one time to the next.
    Returns: (times, mesh, mesh, mesh) float32, density over its mean.
    Raises: BadValue: see `density`.
    """
    with _quiet():
        return np.asarray(particle_mesh().evolved(_parameters(universe), linear, scale_factors, steps))


@functools.cache
def particle_mesh() -> Any:
    """Start JAX with one thread in this process: a walker has one core."""
    os.environ["NPROC"] = "1"  # XLA's threads; its flags change nothing about them
    with _quiet():
        return import_module("steersman.apps.cosmology.particle_mesh")


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what only jaxpm and jax-cosmo can mend: how they look up their version, and cast to int64."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _parameters(universe: Universe) -> np.ndarray:
    if not universe.omega_m > 0.05:
        raise BadValue("omega_m", universe.omega_m, "give more than 0.05, where baryons are")
    return np.array([universe.omega_m, universe.sigma_8, universe.n_s], np.float32)
