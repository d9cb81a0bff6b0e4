"""Cross the Mueller-Brown surface: Langevin dynamics whose truth is known exactly, by steersman.apps.mueller_brown.

    steersman compare mueller_brown
"""
from pydantic import Field

from steersman import Params, Workflow, budget
from steersman.apps import mueller_brown
from steersman.steering import LocalOutlierFactor


class MuellerBrown(Params):
    steps: int = Field(1000, ge=50)  # of a segment
    frames: int = Field(4_800, ge=1)  # budget; a frame is 50 steps


wf = Workflow("mueller_brown", MuellerBrown, stop=lambda p: budget(frames=p.frames))

@wf.simulate(variables=mueller_brown.VARIABLES)
def segment(p, start, out):
    for time, position in mueller_brown.run(start, seed=out.seed, steps=p.steps):
        out.append(time=time, position=position)
        if out.stopped: break

@wf.score()
def place(p, model, frames): return {"x": frames["position"]}

wf.steer(LocalOutlierFactor("x"))

@wf.yardstick(levels=(2, 3))
def wells(p, frames): return mueller_brown.wells(frames["position"])

@wf.yardstick(levels=(100, 167, 234))  # of 334 cells: 30, 50 and 70 %
def cells(p, frames): return mueller_brown.cells(frames["position"])
