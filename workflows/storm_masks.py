"""Where are cyclones and moist rivers? A class for every pixel of flows that are simulated where networks disagree.

    steersman run storm_masks
"""
from typing import Literal

from pydantic import Field

from steersman import Params, Workflow, budget, every
from steersman.apps import storms
from steersman.steering import Unsure, latin_hypercube

class StormMasks(Params):
    flows: int = Field(400, ge=1)  # budget, beside those that are held out
    held_out: int = Field(40, ge=1)
    train_every: int = Field(80, ge=1)  # flows
    epochs: int = Field(4, ge=1)
    members: int = Field(2, ge=1)
    network: Literal["deeplab", "tiramisu"] = "tiramisu"
    width: float = Field(0.25, gt=0, le=1)  # 1 is the published size, for GPUs
    channels: Literal["all", "indirect"] = "all"
    power: float = Field(0.5, ge=0, le=1)  # classes weigh 1 / frequency^power

wf = Workflow("storm_masks", StormMasks, stop=lambda p: budget(frames=p.held_out + p.flows))

@wf.held_out
def judged(p): return {"point": latin_hypercube(p.held_out, storms.DIMENSIONS)}

@wf.simulate(variables=storms.VARIABLES)
def stir(p, start, out):
    point = start.point(storms.DIMENSIONS, out.seed)
    out.append(**storms.run(point, out.seed))

@wf.train(when=lambda p: every(frames=p.train_every), ranks=2, strategy="ddp")  # while flows are simulated
def fit(p, frames, last):
    return storms.fitted(frames, p.channels, p.power, init=last, members=p.members, network=p.network, width=p.width,
                         epochs=p.epochs, batch=4, lr=3e-3)  # of each rank

@wf.score(batch=64)
def doubt(p, model, frames): return storms.judged(model, frames, p.channels)

wf.steer(Unsure("disagreement", storms.DIMENSIONS))

@wf.metric
def cyclones(scores): return storms.pooled(scores.values, scores.held_out)["cyclone"]

@wf.metric
def rivers(scores): return storms.pooled(scores.values, scores.held_out)["river"]

@wf.figure("What the committee marks")
def masks(p, results):
    from steersman.apps.storms.figures import masks
    return masks(results.model, results.held_out, p.channels)

@wf.figure("Where flows were drawn")
def draws(p, results):
    from steersman.apps.storms.figures import draws
    return draws(results.scores.values, results.scores.held_out)
