"""Pass a barrier that is passed once in 15,400: members are split by a committor that learns while they run.

    steersman run passage
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, doubling, models
from steersman.apps import double_well
from steersman.steering import WeightedEnsemble, arrivals, passage

BARRIER_KT, EDGE, SEGMENT = 12.0, 0.8, 0.01  # of x: nearer to a well's middle than the edge a particle is in the well


class Passage(Params):
    first: int = Field(4000, ge=100)  # frames of the first training; then at every doubling
    frames: int = Field(60_000, ge=1)  # budget


wf = Workflow("passage", Passage, stop=lambda p: budget(frames=p.frames))

@wf.simulate(variables=double_well.VARIABLES)
def segment(p, start, out):
    for time, position in double_well.run(start, seed=out.seed, steps=10, barrier_kT=BARRIER_KT):
        out.append(time=time, position=position)
        if out.stopped: break

@wf.train(when=lambda p: doubling(first=p.first))
def fit(p, frames, last):  # what is known beforehand of the other well: where it is
    x = np.concatenate([frames["position"], np.random.default_rng(0).normal((1, 0), (0.1, 0.07), (300, 2))])
    weights = np.append(frames.weight, np.zeros(300))
    states = {"begin": x[:, 0] < -EDGE, "end": x[:, 0] > EDGE}
    return models.Committor.fit(x, frames.lagged(1), weights=weights, **states)

@wf.score(early=True)
def place(p, model, frames):
    x = frames["position"][:, 0]
    told = {"chance": np.where(x < -EDGE, 0.0, model.chance(frames["position"]))} if model else {}
    return {"x": x, "there": x > EDGE, **told}

wf.steer(WeightedEnsemble(chance="chance", members=100, target="there"))

@wf.metric
def life(scores): return SEGMENT * passage(arrivals(scores, scores.values["there"])).value
