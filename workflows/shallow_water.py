"""Storms of a jet on the sphere: an ensemble of shallow-water runs, branched where its flow is unusual.

    steersman run shallow_water
"""
from pydantic import Field

from steersman import Params, Workflow, budget, every
from steersman.apps import shallow_water as sw
from steersman.models import PCA
from steersman.steering import LocalOutlierFactor, Novelty, Random


class Jets(Params):
    truncation: int = Field(42, ge=5, le=341)
    segment_days: float = Field(1.0, gt=0)
    perturbation_m: float = Field(5.0, ge=0)  # makes a branch of a stored frame
    latent: int = Field(4, ge=1, le=64)
    train_every: int = Field(1_000, ge=2)  # frames
    sim_days: float = Field(600.0, gt=0)  # budget


wf = Workflow("shallow_water", Jets, stop=lambda p: budget(sim_days=p.sim_days))

@wf.simulate(variables=sw.VARIABLES)
def integrate(p, start, out):
    settings = {"truncation": p.truncation, "perturbation_m": p.perturbation_m}
    for frame in sw.run(start, seed=out.seed, days=p.segment_days, **settings):
        out.append(time=frame.time_days, **frame.stored)
        if out.stopped: break

@wf.train(when=lambda p: every(frames=p.train_every, first=p.train_every // 4))
def fit(p, frames, last): return PCA.fit(1e5 * frames["vorticity"][:, ::4, ::4], latent=p.latent)

@wf.score()
def place(p, model, frames):
    z, error = model.encode(1e5 * frames["vorticity"][:, ::4, ::4])
    speed = (frames["u"] ** 2 + frames["v"] ** 2).max(axis=(1, 2)) ** 0.5
    return {"z": z, "error": error, "wind": speed}

wf.steer(LocalOutlierFactor("z") | Novelty("z"), explore=0.2, fallback=Random())

@wf.metric
def strongest_wind(scores): return scores.values["wind"].max()  # m/s

@wf.metric
def coverage(scores): return scores.occupied_cells("z", bins=10)
