"""Two wells, slowed down, whose walkers are pushed by a bias along x; a model is trained beside it."""

import sys
import time

import numpy as np

from steersman import Params, Workflow, budget, every, models
from steersman.apps import double_well
from steersman.steering import Opes


class P(Params):
    frames: int = 1_000_000
    pause_s: float = 0.005


wf = Workflow("biased", P, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables=double_well.VARIABLES)
def segment(p, start, out):
    rng, step = np.random.default_rng(out.seed), 1e-3
    position = np.array(start.state.get("exactly", start.frame.get("position", double_well.LEFT)), np.float64)
    for frame in range(20):
        for noise in rng.normal(size=(5, 2)):
            push = start.bias.gradient(position[0]) if start.bias else 0.0
            position += step * (double_well.force(position, 12.0) - [float(push), 0.0]) + np.sqrt(2 * step) * noise
        time.sleep(p.pause_s)
        energy = start.bias.energy(position[0]) if start.bias else 0.0
        out.append(
            time=5 * step * (frame + 1), position=position.astype(np.float32), bias=float(energy),
            torch="torch" in sys.modules,
        )  # fmt: skip
        if out.stopped:
            break
    out.state(exactly=position)


@wf.train(when=every(frames=1500, first=300))
def fit(p, frames, last):
    time.sleep(p.pause_s)
    return models.PCA.fit(frames["position"], latent=1)


@wf.score()
def place(p, model, frames):
    _, error = model.encode(frames["position"])
    return {"x": frames["position"][:, 0], "bias": frames["bias"], "error": error}


wf.steer(bias=Opes("x", barrier_kT=10))


@wf.metric
def right(scores):
    return scores.matrix("x").max()
