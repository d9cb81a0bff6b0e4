"""Find six wells on a torus: Langevin dynamics whose truth is known exactly, by steersman.apps.six_wells.exact.

    steersman compare wells
"""
import time

import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget
from steersman.apps import six_wells
from steersman.steering import LocalOutlierFactor


class Wells(Params):
    steps: int = Field(500, ge=25)  # of a segment
    frames: int = Field(9_600, ge=1)  # budget; a frame is 25 steps
    frame_s: float = Field(0.0, ge=0)  # of wall time that are waited for each frame, as for one of a costly simulation


wf = Workflow("wells", Wells, stop=lambda p: budget(frames=p.frames))

@wf.simulate(variables=six_wells.VARIABLES)
def segment(p, start, out):
    for passed, angles in six_wells.run(start, seed=out.seed, steps=p.steps):
        time.sleep(p.frame_s)
        out.append(time=passed, angles=angles)
        if out.stopped: break

@wf.score()
def place(p, model, frames):
    angles = frames["angles"]
    return {
        "z": np.concatenate([np.cos(angles), np.sin(angles)], axis=1),
        "angles": angles,
        "cell": six_wells.grid_cells(angles, per_angle=8),  # the bins of a weighted ensemble
        "far": six_wells.wells(angles) == 3,  # the well that is hardest to reach
    }

wf.steer(LocalOutlierFactor("z"))

@wf.yardstick(levels=(2, 4, 6))
def wells(p, frames): return six_wells.wells(frames["angles"])

@wf.yardstick(levels=(105, 175, 245))  # of 350 cells: 30, 50 and 70 %
def cells(p, frames): return six_wells.cells(frames["angles"])
