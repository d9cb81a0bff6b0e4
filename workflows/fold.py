"""Fold a peptide from its sequence: molecular dynamics, and a variational autoencoder that maps it while it runs.

    steersman run fold --set sequence=YYDPETGTWY
"""
from pydantic import Field

from steersman import Params, Workflow, budget, every, models, plateau
from steersman.apps import molecular_dynamics as md
from steersman.steering import Unsteered


class Fold(Params):
    sequence: md.Sequence = "EQYTAKYKGRTFRNEKELRDFIEKFKGR"  # FSD-EY (PDB 1FME), 28 residues
    temperature_K: float = Field(300.0, gt=0, le=1000)
    segment_ps: float = Field(2.0, ge=0.2, multiple_of=0.2)
    contact_nm: float = Field(0.8, gt=0)
    latent: int = Field(3, ge=1, le=64)
    train_every: int = Field(20_000, ge=1)  # frames
    sim_ns: float = Field(100.0, gt=0)  # budget


wf = Workflow("fold", Fold, stop=lambda p: budget(sim_ns=p.sim_ns) | plateau("coverage", last=500))

@wf.prepare
def build(p): return md.build_peptide(p.sequence, temperature_K=p.temperature_K)

@wf.simulate(gpus=1, variables=md.VARIABLES)
def fold(p, start, out):
    settings = {"temperature_K": p.temperature_K, "duration_ps": p.segment_ps, "contact_nm": p.contact_nm}
    for frame in md.run(start, seed=out.seed, **settings):
        out.append(time=frame.time_ps, contacts=frame.contacts, positions=frame.positions, energy=frame.energy)
        if out.stopped: break
    out.state(velocities=frame.velocities)

@wf.train(gpus=1, when=lambda p: every(frames=p.train_every, first=p.train_every // 4))
def fit(p, frames, last): return models.CVAE.fit(frames["contacts"], latent=p.latent, init=last)

@wf.score()
def embed(p, model, frames):
    z, error = model.encode(frames["contacts"])
    return {"z": z, "error": error}

wf.steer(Unsteered())  # what explores most here (docs/results.md); LocalOutlierFactor("z") would follow the model

@wf.metric
def coverage(scores): return scores.occupied_cells("z", bins=20)

@wf.yardstick()  # how many different ones, whatever the model
def contact_maps(p, frames): return md.far_contacts(frames["contacts"])
