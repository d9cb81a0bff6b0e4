"""A force field of molten copper and gold, which a committee of networks (a `Potential`) learns while it
simulates. An expensive code is asked for frames that they disagree about, and for some at random: they bound its error.

    steersman run force_field --workers 1
"""
import time

import numpy as np
from ase.build import bulk
from ase.calculators.emt import EMT  # stands for the expensive code: so the truth is known
from pydantic import Field

from steersman import Params, Workflow, budget, every, trusted
from steersman.apps import atoms
from steersman.steering import Doubtful, Unsteered


class ForceField(Params):
    temperature_K: float = Field(2000.0, gt=0)  # it melts
    cost_s: float = Field(1.0, ge=0)  # that a call of the expensive code takes besides, as DFT would
    labels: int = Field(150, ge=20)  # budget
    learn: int = Field(80, ge=10)  # labels from which on the network stays as it is: audits then bound its error
    doubt: float = Field(0.05, gt=0)  # spread of the members' forces from which on a frame is labelled, eV/angstrom
    trust: float = Field(0.5, gt=0)  # error of the worst force that is good enough in 95 % of the frames, eV/angstrom


wf = Workflow("force_field", ForceField, stop=lambda p: trusted(below=p.trust) | budget(labels=p.labels))

@wf.prepare
def crystal(p):
    alloy = bulk("Cu", "fcc", 4.1, cubic=True) * (2, 2, 2)  # as dense as the melt
    alloy.symbols[np.random.default_rng(0).permutation(len(alloy))[: len(alloy) // 2]] = "Au"
    return alloy

@wf.simulate(variables=atoms.VARIABLES, exact=True)
def simulate(p, start, out):
    if start.model is None:
        atoms.rattle(start, out, stdev=0.2, strain=0.04)  # random displacements, until there is a network
        time.sleep(2)
        return
    potential, hot = start.model.calculator(), p.temperature_K
    atoms.run(start, out, potential, temperature_K=hot, timestep_fs=4, segment_ps=0.5, doubt_above=10 * p.doubt)

@wf.label(variables=atoms.ANSWERS, error=atoms.force_error)
def expensive(p, frame):
    time.sleep(p.cost_s)
    return atoms.answer(frame, EMT())

@wf.train(when=lambda p: every(labels=20, first=40, last=p.learn), gate=atoms.mean_force_error)
def learn(p, frames, last): return atoms.fit(frames.labelled, init=last)

@wf.score(early=True)
def score(p, model, frames):
    return {"energy": frames["energy"]} | ({} if model is None else {"spread": frames["spread"]})

wf.steer(Unsteered(), label=lambda p: Doubtful("spread", above=p.doubt, most=10, audits=0.1))
