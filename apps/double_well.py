"""Start -> frames: a particle in two wells of the plane, the smallest system that needs steering.

V(x, y) = barrier (x^2 - 1)^2 + 100 y^2, in kT; wells at x = -1 and x = +1, overdamped Langevin dynamics, unit mobility.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steersman.stages.start import Start
from steersman.store import Variable

VARIABLES = {
    "time": Variable((), "1", "simulated time"),
    "position": Variable(("xy",), "1", "position"),
}
LEFT = np.array([-1.0, 0.0])


def force(position: np.ndarray, barrier_kT: float) -> np.ndarray:
    """-grad V at positions (..., 2)."""
    x, y = position[..., 0], position[..., 1]
    return np.stack([-4.0 * barrier_kT * x * (x * x - 1.0), -200.0 * y], axis=-1)


def run(
    start: Start, *, seed: int, steps: int, report: int = 5, barrier_kT: float = 12.0, timestep: float = 1e-3
) -> Iterator[tuple[float, np.ndarray]]:
    """Yield (time, position (2,) float32) every `report` steps, from the left well unless the start is a frame."""
    rng = np.random.default_rng(seed)
    position = np.array(start.frame.get("position", LEFT), dtype=np.float64)
    kick = np.sqrt(2.0 * timestep)
    for done in range(report, steps + 1, report):
        for noise in rng.normal(size=(report, 2)):
            position += timestep * force(position, barrier_kT) + kick * noise
        yield done * timestep, position.astype(np.float32)
