"""Alanine dipeptide, biased along its two torsions: what a bias could do that knows everything from the beginning.

    steersman compare oracle --seeds 8

Of several residues it is biased along each phi, of which there may be three.
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes
from steersman.workflows.dipeptide import LEFT


class Oracle(Params):
    sequence: str = "A"
    segment_ps: float = Field(4.0, ge=1.0)
    sim_ns: float = Field(2.0, gt=0)  # budget


wf = Workflow("oracle", Oracle, stop=lambda p: budget(sim_ns=p.sim_ns))

@wf.prepare
def build(p): return md.build_peptide(p.sequence, capped=True)

@wf.simulate(variables=md.VARIABLES)
def segment(p, start, out):
    torsions = md.Torsions.backbone(start.prepared).atoms
    angles = md.Angles(torsions if len(torsions) == 2 else torsions[::2])
    settings = {"temperature_K": 300.0, "duration_ps": p.segment_ps, "report_ps": 0.1, "platform": "Reference"}
    for f in md.run(start, seed=out.seed, features=angles, **settings):
        out.append(time=f.time_ps, positions=f.positions, features=f.features, bias=f.bias)
        if out.stopped: break
    out.state(velocities=f.velocities)

@wf.score()
def place(p, model, frames): return {"torsions": frames["features"], "bias": frames["bias"]}

wf.steer(bias=Opes("torsions", barrier_kT=16, periods=2 * np.pi))

@wf.yardstick("highest", levels=(1,))
def left(p, frames): return (frames["features"][:, 0] > LEFT[0]) & (frames["features"][:, 0] < LEFT[1])
