"""Alanine dipeptide, biased along what one of several models learned of it; how soon is the left-handed basin found?

    steersman compare biased --vary model=TICA,DeepTICA,PCA,Autoencoder --seeds 8
"""
from typing import Literal

from pydantic import Field

from steersman import doubling, models
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes
from steersman.workflows.dipeptide import LEFT, Dipeptide, wf


class BiasedDipeptide(Dipeptide):
    model: Literal["TICA", "DeepTICA", "PCA", "Autoencoder"] = "TICA"
    lag: int = Field(5, ge=1)  # frames


wf.params = BiasedDipeptide

@wf.train(when=lambda p: doubling(first=p.first, last=8 * p.first))
def fit(p, frames, last):
    if p.model == "PCA": return models.PCA.fit(frames["features"], latent=p.latent)
    if p.model == "Autoencoder": return models.Autoencoder.fit(frames["features"], latent=p.latent, init=last)
    data, pairs = frames["features"], frames.lagged(p.lag)
    if p.model == "TICA": return models.TICA.fit(data, pairs, latent=p.latent)
    return models.DeepTICA.fit(data, pairs, latent=p.latent, init=last)

@wf.score()
def place(p, model, frames):
    z = model.encode(frames["features"])
    phi = md.dihedral(frames["positions"][:, [4, 6, 8, 10]])
    inside = (phi > LEFT[0]) & (phi < LEFT[1])
    return {"z": z[0] if isinstance(z, tuple) else z, "bias": frames["bias"], "phi": phi, "left": inside}

wf.steer(bias=Opes("z", barrier_kT=14))  # without controls: `compare` runs plain sampling beside it

@wf.yardstick("highest", levels=(1,))
def left(p, frames):
    phi = md.dihedral(frames["positions"][:, [4, 6, 8, 10]])
    return (phi > LEFT[0]) & (phi < LEFT[1])
