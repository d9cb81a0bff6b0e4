"""Find the second well: a particle in the plane, steered by novelty; the smallest whole loop, half a minute.

    steersman run double_well
"""
from pydantic import Field

from steersman import Params, Workflow, budget, every, models, reached
from steersman.apps import double_well
from steersman.steering import Novelty


class DoubleWell(Params):
    barrier_kT: float = Field(12.0, gt=0, le=50)
    steps: int = Field(50, ge=5)  # of a segment
    frames: int = Field(50_000, ge=1)  # budget
    train_every: int = Field(10_000, ge=1)


wf = Workflow("double_well", DoubleWell, stop=lambda p: budget(frames=p.frames) | reached("right", 1.0))

@wf.simulate(variables=double_well.VARIABLES)
def segment(p, start, out):
    for time, position in double_well.run(start, seed=out.seed, steps=p.steps, barrier_kT=p.barrier_kT):
        out.append(time=time, position=position)
        if out.stopped: break

@wf.train(when=lambda p: every(frames=p.train_every, first=200))
def fit(p, frames, last): return models.PCA.fit(frames["position"], latent=1)

@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["position"])
    return {"z": z, "error": error, "x": frames["position"][:, 0]}

wf.steer(Novelty("z"), explore=0.1)

@wf.metric
def right(scores): return scores.values["x"].max()  # rightmost place so far; the second well lies at 1
