"""The workflow file that `new` writes."""

TEMPLATE = '''"""NAME: describe it here.

    steersman run NAME.py
"""

import numpy as np

from steersman import Params, Workflow, budget
from steersman.steering import Novelty
from steersman.store import Variable


class Parameters(Params):
    steps: int = 50  # of a segment
    frames: int = 20_000  # budget


wf = Workflow("NAME", Parameters, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables={"time": Variable((), "s", "time"), "x": Variable((), "m", "position")})
def simulate(p, start, out):
    """One segment: put your simulation here; it begins from start.frame, which is empty at the very first."""
    rng = np.random.default_rng(out.seed)
    x = float(start.frame.get("x", 0.0))
    for step in range(1, p.steps + 1):
        x += rng.normal()
        out.append(time=float(step), x=x)
        if out.stopped:
            break


@wf.score()
def place(p, model, frames):
    """What steering looks at; with a @wf.train stage, `model` is what it returned."""
    return {"x": frames["x"]}


wf.steer(Novelty("x"))


@wf.metric
def spread(scores):
    return float(np.ptp(scores.values["x"]))


@wf.yardstick("highest")
def farthest(p, frames):
    """What `steersman compare NAME.py` judges by: a function of stored frames alone."""
    return np.abs(frames["x"])
'''
