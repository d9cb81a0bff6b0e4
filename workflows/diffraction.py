"""Which crystal, how thick, how tilted? Electron diffraction, simulated where a committee of networks disagrees.

    steersman run diffraction
"""
from typing import Literal

from pydantic import Field

from steersman import Params, Workflow, budget, every, models, reached
from steersman.apps import diffraction as cbed
from steersman.steering import Unsure, latin_hypercube


class Diffraction(Params):
    patterns: int = Field(1500, ge=1)  # budget, beside those that are held out
    held_out: int = Field(200, ge=1)
    goal: float = Field(0.1, ge=0)  # error rate on what is held out
    train_every: int = Field(200, ge=1)  # patterns
    epochs: int = Field(12, ge=1)
    members: int = Field(3, ge=1)
    network: Literal["small", "resnet50"] = "small"


wf = Workflow("diffraction", Diffraction,
              stop=lambda p: budget(frames=p.held_out + p.patterns) | reached("error_rate", p.goal, below=True))

@wf.held_out
def judged(p): return {"point": latin_hypercube(p.held_out, cbed.DIMENSIONS)}

@wf.simulate(variables=cbed.VARIABLES)
def expose(p, start, out):
    point = start.point(cbed.DIMENSIONS, out.seed)
    conditions = cbed.Conditions.of(point)
    out.append(pattern=cbed.counts(conditions, out.seed), label=conditions.label, point=point)

@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p, frames, last):
    return models.Committee.fit(cbed.seen(frames["pattern"]), frames["label"], classes=cbed.CLASSES, members=p.members,
                                network=p.network, epochs=p.epochs, lr=2e-3, init=last,
                                schedule=models.Schedule(decay_epochs=p.epochs))

@wf.score()
def doubt(p, model, frames):
    return model.judgement(cbed.seen(frames["pattern"]), frames["label"]) | {"point": frames["point"]}

wf.steer(Unsure("disagreement", cbed.DIMENSIONS))

@wf.metric
def error_rate(scores): return scores.values["wrong"][scores.held_out].mean()

@wf.figure("What the committee makes of each class")
def classes(p, results):
    from steersman.apps.diffraction.figures import classes
    return classes(results.model, results.held_out)

@wf.figure("Where patterns were drawn")
def draws(p, results):
    from steersman.apps.diffraction.figures import of_scores
    return of_scores(results.scores.values, results.scores.held_out)
