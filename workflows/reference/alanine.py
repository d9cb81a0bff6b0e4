"""Alanine dipeptide: steered by its true torsions, or by a latent space learned from distances that knows no torsion.

    steersman compare alanine --policy 'LocalOutlierFactor("torsions")' --seeds 4
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps import molecular_dynamics as md
from steersman.steering import LocalOutlierFactor

PHI, PSI = [4, 6, 8, 10], [6, 8, 10, 16]  # C-N-CA-C and N-CA-C-N
HEAVY = [0, 4, 5, 6, 8, 10, 11, 12, 16, 18]
CELLS = 18  # per angle
LEFT = 0.35, 2.1  # rad: phi of the left-handed basin, well inside its barriers
RIGHT = -2.1, 1.05  # rad: psi of the right-handed basin


class Alanine(Params):
    segment_ps: float = Field(2.0, ge=0.1, multiple_of=0.1)
    latent: int = Field(10, ge=1)
    train_every: int = Field(4_000, ge=1)  # frames
    sim_ns: float = Field(1.6, gt=0)  # budget


wf = Workflow("alanine", Alanine, stop=lambda p: budget(sim_ns=p.sim_ns))

@wf.prepare
def build(p): return md.build_peptide("A", capped=True)

@wf.simulate(variables={name: md.VARIABLES[name] for name in ("time", "positions")})
def segment(p, start, out):
    settings = {"temperature_K": 300.0, "duration_ps": p.segment_ps, "report_ps": 0.1, "platform": "Reference"}
    for frame in md.run(start, seed=out.seed, **settings):  # for 22 atoms several times faster than the CPU platform
        out.append(time=frame.time_ps, positions=frame.positions)
        if out.stopped: break
    out.state(velocities=frame.velocities)

def torsions(frames):
    return np.stack([md.dihedral(frames["positions"][:, atoms]) for atoms in (PHI, PSI)], axis=1)

def distances(frames):
    heavy = frames["positions"][:, HEAVY]
    first, second = np.triu_indices(len(HEAVY), 3)  # of neighbours they do not change
    return np.linalg.norm(heavy[:, first] - heavy[:, second], axis=-1)

@wf.train(when=lambda p: every(frames=p.train_every, first=400))
def fit(p, frames, last): return models.PCA.fit(distances(frames), latent=p.latent)

@wf.score()
def place(p, model, frames):
    z, error = model.encode(distances(frames))
    angles = torsions(frames)
    return {"z": z, "error": error, "torsions": np.concatenate([np.cos(angles), np.sin(angles)], axis=1)}

wf.steer(LocalOutlierFactor("z"))

@wf.yardstick()
def cells(p, frames):
    cell = np.floor((torsions(frames) + np.pi) / (2 * np.pi) * CELLS).astype(int) % CELLS
    return cell[:, 0] * CELLS + cell[:, 1]

@wf.yardstick(levels=(3,))
def basins(p, frames):  # 0 extended, 1 right-handed, 2 left-handed
    phi, psi = torsions(frames).T
    left = np.where((phi > LEFT[0]) & (phi < LEFT[1]), 2, -1)  # between the basins: in none
    return np.where(phi > 0, left, (psi > RIGHT[0]) & (psi < RIGHT[1]))
