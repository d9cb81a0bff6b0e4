"""Start -> frames: overdamped Langevin dynamics of one particle among the six wells."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, pi, sqrt

import numpy as np

from steersman.apps.six_wells.landscape import CENTRES, DEPTHS, TURN, WIDTHS
from steersman.stages.start import Start
from steersman.store import Variable

VARIABLES = {"time": Variable((), "1", "simulated time"), "angles": Variable(("angle",), "rad", "angles phi and psi")}
TIMESTEP = 2e-3  # rad^2 / diffusion; twice as much moves the mean energy by less than 1 %
REPORT = 25  # steps between two frames

# One particle at a time, as an engine's slot runs it: plain numbers are six times as fast as arrays of six.
_WELLS = [(*map(float, c), float(d), float(1 / w**2)) for c, d, w in zip(CENTRES, DEPTHS, WIDTHS, strict=True)]


def run(start: Start, *, seed: int, steps: int = 500) -> Iterator[tuple[float, np.ndarray]]:
    """Simulate one segment: dx = force dt + sqrt(2 dt) noise, at kT = 1 and unit mobility.

    Args:
        start: goes on from the frame's `angles`; at the prepared start from the bottom of well 0.
        seed: any integer >= 0.
        steps: of 0.002 time units.
    Returns: (time since the segment's start, angles (2,) float32 rad in -pi to pi) every 25 steps.
    """
    phi, psi = map(float, start.frame.get("angles", CENTRES[0]))
    kick, rng = sqrt(2 * TIMESTEP), np.random.default_rng(seed)
    for done in range(REPORT, steps + 1, REPORT):
        for a, b in rng.normal(scale=kick, size=(REPORT, 2)).tolist():
            phi, psi = _step(phi, psi)
            phi, psi = _wrap(phi + a), _wrap(psi + b)
        yield done * TIMESTEP, np.array([phi, psi], np.float32)


def _step(phi: float, psi: float) -> tuple[float, float]:
    """Where the force takes a point within one time step."""
    to_phi = to_psi = 0.0
    for centre_phi, centre_psi, depth, stiffness in _WELLS:
        x, y = _wrap(phi - centre_phi), _wrap(psi - centre_psi)
        pull = depth * stiffness * exp(-0.5 * stiffness * (x * x + y * y))
        to_phi -= pull * x
        to_psi -= pull * y
    return phi + TIMESTEP * to_phi, psi + TIMESTEP * to_psi


def _wrap(angle: float) -> float:
    return (angle + pi) % TURN - pi
