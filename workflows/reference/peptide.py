"""A peptide, hot until what turns slowly is learned, then pushed along it at 300 K.

    steersman compare peptide --set sequence=AAA --set sim_ns=4 --seeds 8 --rounds --workers 2
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, models, until_used
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes
from steersman.workflows.dipeptide import LEFT

REPORT_PS, LAG_PS = 0.1, 2.0


class Peptide(Params):
    sequence: str = "AAA"
    capped: bool = True
    hot_K: float = Field(1000.0, ge=300)
    segment_ps: float = Field(4.0, ge=1.0)
    latent: int = Field(3, ge=1, le=3)
    first: int = Field(5000, ge=100)  # frames of the first training
    sim_ns: float = Field(4.0, gt=0)  # budget
    platform: str = "Reference"

    @property
    def last(self): return int(self.sim_ns * 1000 / REPORT_PS / 3)  # frames: hot for a third of the budget at most


wf = Workflow("peptide", Peptide, stop=lambda p: budget(sim_ns=p.sim_ns))

@wf.prepare
def build(p): return md.build_peptide(p.sequence, capped=p.capped)

def features(molecule):
    torsions = md.Torsions.backbone(molecule)
    return torsions if molecule.residues < 6 else md.SideBySide((torsions, md.Contacts.of_residues(molecule)))

@wf.simulate(variables=md.VARIABLES)
def segment(p, start, out):
    settings = {"temperature_K": 300.0, "hot_K": p.hot_K, "duration_ps": p.segment_ps, "report_ps": REPORT_PS}
    for f in md.run(start, seed=out.seed, features=features(start.prepared), platform=p.platform, **settings):
        out.append(time=f.time_ps, positions=f.positions, features=f.features, bias=f.bias, hot=f.hot)
        if out.stopped: break
    out.state(velocities=f.velocities)

def forgotten(model, frames): return models.forgotten(model, frames["features"], frames.lagged(time=LAG_PS))

@wf.train(when=lambda p: until_used(first=p.first, last=p.last), gate=forgotten, most=0.4)
def fit(p, frames, last):
    return models.TICA.fit(frames["features"], frames.lagged(time=LAG_PS), latent=p.latent, least=0.2)

def left(p, frames):  # (n, residues) bool; of charged ends the first residue has no phi, and the last no psi
    torsions = frames["features"][:, :4 * len(p.sequence) - (0 if p.capped else 4)]
    phi = torsions.reshape(len(torsions), -1, 2)[:, (0 if p.capped else 1)::2]
    phi = np.arctan2(phi[..., 1], phi[..., 0])
    return (phi > LEFT[0]) & (phi < LEFT[1])

@wf.score()
def place(p, model, frames):
    states = {f"left_{n}": each for n, each in enumerate(left(p, frames).T, start=1)}
    return {"z": model.encode(frames["features"]), "bias": frames["bias"], "hot": frames["hot"], **states}

wf.steer(bias=Opes("z", barrier_kT=14))

@wf.yardstick("distinct")
def turned(p, frames):  # which residues are on the left, at 300 K
    inside = left(p, frames)
    return np.where(frames["hot"], 0, inside @ 2 ** np.arange(inside.shape[1]))
