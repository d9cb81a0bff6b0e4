"""Which crystal? Its diffraction patterns along one, two or three zone axes, simulated where a committee disagrees.

    steersman run zone_axes
"""
from typing import Literal

from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps.diffraction import seen
from steersman.apps.diffraction import zone_axes as cbed
from steersman.steering import Unsure, latin_hypercube


class ZoneAxes(Params):
    projections: Literal[1, 2, 3] = 3  # [001], [011], [111]: a channel of the network each
    crystals: int = Field(480, ge=1)  # budget, beside those that are held out
    held_out: int = Field(120, ge=1)
    train_every: int = Field(120, ge=1)  # crystals
    epochs: int = Field(20, ge=1)
    members: int = Field(3, ge=1)


wf = Workflow("zone_axes", ZoneAxes, stop=lambda p: budget(frames=p.held_out + p.crystals))

@wf.held_out
def judged(p): return {"point": latin_hypercube(p.held_out, cbed.DIMENSIONS)}

@wf.simulate(variables=cbed.VARIABLES)
def expose(p, start, out):
    point = start.point(cbed.DIMENSIONS, out.seed)
    out.append(pattern=cbed.counted(point, p.projections, out.seed), label=cbed.label(point), point=point)

@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p, frames, last):
    return models.Committee.fit(seen(frames["pattern"]), frames["label"], classes=len(cbed.CRYSTALS), members=p.members,
                                epochs=p.epochs, init=last)

@wf.score()
def doubt(p, model, frames):
    return model.judgement(seen(frames["pattern"]), frames["label"]) | {"point": frames["point"]}

wf.steer(Unsure("disagreement", cbed.DIMENSIONS))

@wf.metric
def error_rate(scores): return scores.values["wrong"][scores.held_out].mean()

@wf.figure("Which crystals the committee mixes up")
def mixed_up(p, results):
    from steersman.apps.diffraction.figures import mixed_up
    return mixed_up(results.model, results.held_out)
