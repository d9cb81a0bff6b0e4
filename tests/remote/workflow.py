"""A random walk that takes its time: what is submitted in the tests of remote runs."""

import time

import numpy as np

from steersman import Params, Workflow, budget, every


class Walk(Params):
    frames: int = 100_000
    pause_s: float = 0.01


wf = Workflow("walk", Walk, stop=lambda p: budget(frames=p.frames))


@wf.simulate()
def walk(p, start, out):
    x = np.zeros(2)
    random = np.random.default_rng(out.seed)
    for step in range(20):
        time.sleep(p.pause_s)  # the simulation
        x = x + random.normal(size=2)
        out.append(time=float(step), x=x)
        if out.stopped:
            break


@wf.train(when=every(frames=10**6, first=100))
def fit(p, frames, last):
    from steersman.models import PCA  # and torch with it, which only this stage needs

    return PCA.fit(frames["x"], latent=1)


@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["x"])
    return {"z": z, "error": error}
