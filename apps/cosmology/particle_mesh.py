"""Parameters, seed -> linear density -> density at several times: JaxPM's particle mesh, compiled by JAX.

Importing this starts JAX; `simulation.py` does so with one thread. Lengths are in voxels, times are scale factors a,
velocities v = a^3 E dx/da, as in JaxPM.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax_cosmo
import numpy as np
from jaxpm.painting import cic_paint_dx
from jaxpm.pm import linear_field, lpt, make_ode_fn

BEGIN = 0.1  # the scale factor until which perturbation theory of second order moves the particles
OMEGA_B, H = 0.0486, 0.6774
WAVENUMBERS = np.geomspace(1e-3, 10.0, 128, dtype=np.float32)  # h/Mpc, between which spectra are interpolated


@jax.jit  # type: ignore[untyped-decorator]
def linear_power(parameters: Any, wavenumbers: Any) -> Any:
    """Give the linear spectrum of today, (Mpc/h)^3, at wavenumbers (n,) in h/Mpc."""
    return jax_cosmo.power.linear_matter_power(_cosmology(parameters), wavenumbers)


@functools.partial(jax.jit, static_argnames=("mesh", "voxel_mpc_h"))
def linear(power: Any, words: Any, mesh: int, voxel_mpc_h: float) -> Any:
    """Draw the linear density contrast (mesh, mesh, mesh) of today.

    power: (128,) the spectrum at WAVENUMBERS; words: (2,) uint32, the seed.
    """

    def at(wavenumber: Any) -> Any:
        return jnp.interp(wavenumber.ravel(), WAVENUMBERS, power).reshape(wavenumber.shape)

    return linear_field((mesh,) * 3, (voxel_mpc_h * mesh,) * 3, at, jax.random.wrap_key_data(words))


@functools.partial(jax.jit, static_argnames=("scale_factors", "steps"))
def evolved(parameters: Any, linear: Any, scale_factors: tuple[float, ...], steps: int) -> Any:
    """Move a particle from each voxel's middle; give density over its mean, (times, mesh, mesh, mesh).

    Steps of a leapfrog (drift, kick, drift), equally long in log a, as many between one time and the next.
    """
    cosmology = _cosmology(parameters)
    rates = make_ode_fn(linear.shape, paint_absolute_pos=False)

    def drift(moved: Any, velocity: Any, begin: Any, end: Any) -> Any:
        a = (begin + end) / 2
        return moved + (end - begin) * velocity / (a**3 * jnp.sqrt(jax_cosmo.background.Esqr(cosmology, a)))

    def step(state: Any, times: Any) -> Any:
        (moved, velocity), (begin, middle, end) = state, times
        moved = drift(moved, velocity, begin, middle)
        velocity = velocity + (end - begin) * rates((moved, velocity), middle, cosmology)[1]
        return (drift(moved, velocity, middle, end), velocity), None

    def span(state: Any, times: Any) -> Any:
        state, _ = jax.lax.scan(step, state, times)
        return state, cic_paint_dx(state[0])

    moved, velocity, _ = lpt(cosmology, linear, a=BEGIN, order=2)
    _, densities = jax.lax.scan(span, (moved, velocity), jnp.asarray(_times(scale_factors, steps)))
    return densities


def _cosmology(parameters: Any) -> Any:
    omega_m, sigma_8, n_s = parameters
    cosmology = jax_cosmo.Cosmology(
        Omega_c=omega_m - OMEGA_B, Omega_b=OMEGA_B, h=H, n_s=n_s, sigma8=sigma_8, Omega_k=0.0, w0=-1.0, wa=0.0
    )
    cosmology._workspace = {}  # JaxPM 0.1.6 looks for its own tables in those of jax-cosmo
    return cosmology


def _times(scale_factors: tuple[float, ...], steps: int) -> np.ndarray:
    """(times, steps, 3): begin, middle and end of each step."""
    spans = zip((BEGIN, *scale_factors), scale_factors, strict=False)
    edges = [np.geomspace(begin, end, 2 * steps + 1) for begin, end in spans]
    return np.asarray([np.stack([each[:-2:2], each[1::2], each[2::2]], axis=1) for each in edges], np.float32)
