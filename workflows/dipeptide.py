"""Find a basin that plain dynamics saw once in 77 ns: a model learns what is slow, and pushes the walkers along it.

    steersman run dipeptide
"""
from pydantic import Field

from steersman import Params, Workflow, budget, doubling, models
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes

LEFT = 0.35, 2.1  # rad: phi of the left-handed basin; nothing that is learned knows of it


class Dipeptide(Params):
    segment_ps: float = Field(4.0, ge=1.0)
    latent: int = Field(3, ge=1, le=3)
    first: int = Field(1000, ge=100)  # frames of the first training; then at 2, 4 and 8 times as many
    sim_ns: float = Field(2.0, gt=0)  # budget


wf = Workflow("dipeptide", Dipeptide, stop=lambda p: budget(sim_ns=p.sim_ns))

@wf.prepare
def build(p): return md.build_peptide("A", capped=True)

@wf.simulate(variables=md.VARIABLES)
def segment(p, start, out):
    settings = {"temperature_K": 300.0, "duration_ps": p.segment_ps, "report_ps": 0.1, "platform": "Reference"}
    distances = md.Distances.between(start.prepared)  # of heavy atoms: all that the model sees
    for f in md.run(start, seed=out.seed, features=distances, **settings):  # pushed by start.bias along start.model
        out.append(time=f.time_ps, positions=f.positions, features=f.features, bias=f.bias)
        if out.stopped: break
    out.state(velocities=f.velocities)

@wf.train(when=lambda p: doubling(first=p.first, last=8 * p.first))
def fit(p, frames, last):  # what changes slowest, by how alike frames 0.5 ps apart are
    return models.DeepTICA.fit(frames["features"], frames.lagged(5), latent=p.latent, init=last)

@wf.score()
def place(p, model, frames):
    z, phi = model.encode(frames["features"]), md.dihedral(frames["positions"][:, [4, 6, 8, 10]])
    return {"z": z, "bias": frames["bias"], "phi": phi, "left": (phi > LEFT[0]) & (phi < LEFT[1])}

wf.steer(bias=Opes("z", barrier_kT=14, controls=1))  # one slot is never pushed, to compare with

@wf.metric
def left(scores): return scores.values["left"].sum()
