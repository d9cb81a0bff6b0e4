"""Two wells, slowed down so that there is always something at work to be killed."""

import time

from steersman import Params, Workflow, budget, every, models
from steersman.apps import double_well
from steersman.steering import Doubtful, Novelty


class P(Params):
    frames: int = 1_000_000


wf = Workflow("faults", P, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables=double_well.VARIABLES)
def segment(p, start, out):
    for moment, position in double_well.run(start, seed=out.seed, steps=100, barrier_kT=30.0):
        time.sleep(0.005)
        out.append(time=moment, position=position)
        if out.stopped:
            break


@wf.label()
def doubled(p, frame):
    time.sleep(0.05)
    return {"twice": 2 * frame["position"]}


@wf.train(when=every(frames=1500, first=300))
def fit(p, frames, last):
    time.sleep(1.0)
    return models.PCA.fit(frames["position"], latent=1)


@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["position"])
    return {"z": z, "error": error}


wf.steer(Novelty("z"), explore=0.1, label=Doubtful("error", above=-1.0, most=4, audits=0.2))


@wf.metric
def right(scores):
    return scores.matrix("z").max()
