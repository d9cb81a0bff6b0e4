"""Which universe is this? Dark matter, simulated where a committee of networks disagrees about its parameters.

    steersman run cosmology
"""
from typing import Literal

import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, every, models, reached
from steersman.apps import cosmology as cosmos
from steersman.steering import Unsure, latin_hypercube


class Cosmology(Params):
    universes: int = Field(90, ge=1)  # budget, beside those that are held out
    held_out: int = Field(30, ge=1)
    goal: float = Field(0.1, ge=0)  # mean error on what is held out; who always says the middle has 0.5
    train_every: int = Field(20, ge=1)  # universes
    epochs: int = Field(6, ge=1)
    members: int = Field(3, ge=1)
    width: int = Field(8, ge=1)  # of the networks; 32 is CosmoFlow's
    crop: Literal[32, 64] = 32  # voxels along an edge of what a network sees, half of a universe's; 64 is for GPUs


wf = Workflow("cosmology", Cosmology,
              stop=lambda p: budget(frames=p.held_out + p.universes) | reached("error", p.goal, below=True))

@wf.held_out
def judged(p): return {"point": latin_hypercube(p.held_out, cosmos.DIMENSIONS)}

@wf.simulate(variables=cosmos.VARIABLES)
def evolve(p, start, out):
    point = start.point(cosmos.DIMENSIONS, out.seed)
    out.append(point=point, **cosmos.stored(cosmos.density(cosmos.Universe.of(point), out.seed, mesh=2 * p.crop)))

@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p, frames, last):
    cubes, wanted = cosmos.crops(frames["density"]), cosmos.targets(frames["point"]).repeat(cosmos.CROPS, axis=0)
    return models.Regressors.fit(cubes, wanted, epochs=p.epochs, members=p.members, width=p.width, init=last)

@wf.score()
def judge(p, model, frames):
    said = model.estimates(cosmos.crops(frames["density"]))
    return cosmos.judgement(said, frames["point"]) | {name: frames[name] for name in ("summary", "point")}

wf.steer(Unsure("spread", cosmos.DIMENSIONS))

@wf.metric
def error(scores): return scores.values["error"][scores.held_out].mean()

@wf.metric
def error_of_spectrum(scores): return np.abs(cosmos.errors_of_summary(scores.values, scores.held_out)).mean()

@wf.figure("What the committee finds, and where universes were drawn")
def found(p, results):
    from steersman.apps.cosmology.figures import found
    return found(results.scores.values, results.scores.held_out)
