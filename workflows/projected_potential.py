"""Where does the probe stand, in what? The projected potential from a diffraction pattern, by a committee of networks.

    steersman run projected_potential
"""
from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps.diffraction import counts, seen
from steersman.apps.diffraction import potential as cbed
from steersman.steering import Unsure, latin_hypercube


class ProjectedPotential(Params):
    patterns: int = Field(1200, ge=1)  # budget, beside those that are held out
    held_out: int = Field(120, ge=1)
    train_every: int = Field(300, ge=1)  # patterns
    epochs: int = Field(20, ge=1)
    members: int = Field(2, ge=1)


wf = Workflow("projected_potential", ProjectedPotential, stop=lambda p: budget(frames=p.held_out + p.patterns))

@wf.held_out
def judged(p): return {"point": latin_hypercube(p.held_out, cbed.DIMENSIONS)}

@wf.simulate(variables=cbed.VARIABLES)
def expose(p, start, out):
    point = start.point(cbed.DIMENSIONS, out.seed)
    conditions = cbed.conditions(point)
    out.append(pattern=counts(conditions, out.seed), potential=cbed.projected(conditions), point=point)

@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p, frames, last):
    return models.ImageRegressors.fit(seen(frames["pattern"]), frames["potential"] / cbed.SCALE_VA, epochs=p.epochs,
                                      members=p.members, init=last)

@wf.score()
def judge(p, model, frames): return cbed.judgement(model.estimates(seen(frames["pattern"])) * cbed.SCALE_VA, frames)

wf.steer(Unsure("spread", cbed.DIMENSIONS))

@wf.metric
def error(scores): return scores.values["error"][scores.held_out].mean()

@wf.metric
def error_of_mean(scores): return cbed.errors_of_mean(scores.values, scores.held_out).mean()

@wf.figure("The potential that the committee finds")
def found(p, results):
    from steersman.apps.diffraction.figures import potentials
    said = results.model.estimates(seen(results.held_out["pattern"])) * cbed.SCALE_VA
    beside = cbed.errors_of_mean(results.scores.values, results.scores.held_out).mean()
    return potentials(results.held_out, said, beside)
