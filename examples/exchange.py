"""Two programs that run at once and exchange by the tuple space: one task starts both and gives them the address.

steersman run examples/exchange.py      # each half of a heated rod is a program; they meet at the middle
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from steersman import Params, Workflow, budget
from steersman.bus import Server

POINTS, SWEEPS = 8, 400  # of a half; one sweep each before what lies at the middle is exchanged

# An MPI program does the same in its rank 0; here both are Python, with nothing of Steersman but the tuple space.
HALF = """
import sys

import numpy as np

from steersman.bus import TupleSpace

mine, other, points, sweeps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
space = TupleSpace.connect(folder)
left = mine == "left"
u = np.zeros(points + 2)  # with the wall, 0 on the left and 1 on the right, and what the other half has beside it
u[-1] = 0.0 if left else 1.0
for sweep in range(sweeps):
    space.put("edge", mine, sweep, float(u[-2] if left else u[1]))
    met = space.take("edge", other, sweep, float, timeout_s=60)[3]
    u[-1 if left else 0] = met
    u[1:-1] = (u[:-2] + u[2:]) / 2
np.save(f"{mine}.npy", u[1:-1])
"""


class Rod(Params):
    frames: int = 20


wf = Workflow("exchange", Rod, stop=lambda p: budget(frames=p.frames))


@wf.task(retries=2)
def rod(points: int, sweeps: int) -> list[float]:
    """Run both halves side by side, in the folder of this call; returns the temperature along the rod."""
    with Server.start("bus"):
        words = [(mine, other, points, sweeps, "bus") for mine, other in (("left", "right"), ("right", "left"))]
        halves = [subprocess.Popen([sys.executable, "-c", HALF, *map(str, each)]) for each in words]
        codes = [half.wait() for half in halves]
    if any(codes):
        raise RuntimeError(f"a half ended with {codes}; see {Path('printed.txt').absolute()}")
    found: list[float] = np.concatenate([np.load("left.npy"), np.load("right.npy")]).tolist()
    return found


@wf.before
def heated(p: Rod) -> dict[str, Any]:
    return {"temperature": rod.later(POINTS, SWEEPS)}


@wf.simulate
def fluctuate(p: Rod, start: Any, out: Any) -> None:
    rng, rest = np.random.default_rng(out.seed), np.array(start.prepared["temperature"])
    for i in range(10):
        out.append(time=i + 1.0, temperature=rest + 0.01 * rng.normal(size=rest.shape))
