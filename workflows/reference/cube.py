"""A chain of 27 beads that folds into a cube, biased along what one of several models learned of its contacts.

    steersman compare cube --vary model=TICA,DeepTICA,PCA,contacts --seeds 8

A structure-based model: the 28 contacts of the folded chain attract, all else repels. The chain begins folded; how soon
is it found unfolded? `contacts` is the oracle: it knows that their number matters.
"""
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import openmm
from pydantic import Field

from steersman import Params, Workflow, budget, doubling, models
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes

BOND_NM, KT = 0.38, 2.494339  # kJ/mol at 300 K
# A walk over the 27 places whose contacts are far apart along the chain.
WALK = "022 122 222 221 220 210 200 100 000 001 002 012 112 212 202 102 101 201 211 111 110 120 121 021 020 010 011"
FOLDED = BOND_NM * np.array([[*map(int, place)] for place in WALK.split()])
BEADS = len(FOLDED)
APART = np.linalg.norm(FOLDED[:, None] - FOLDED, axis=-1)
CONTACTS = tuple((i, j) for i, j in combinations(range(BEADS), 2) if j > i + 2 and APART[i, j] < 1.1 * BOND_NM)


@dataclass(frozen=True)
class Touching:
    """Features of our own: of each contact, whether it is made, from 1 smoothly to 0."""

    at_nm: float = 0.52
    soft_nm: float = 0.04

    @property
    def count(self): return len(CONTACTS)

    def values(self, positions):
        one, other = np.array(CONTACTS).T
        apart = np.linalg.norm(np.asarray(positions, float)[..., one, :] - positions[..., other, :], axis=-1)
        return 1 / (1 + np.exp((apart - self.at_nm) / self.soft_nm))

    def force(self, weights):
        force = openmm.CustomBondForce(f"weight/(1 + exp((r - {self.at_nm})/{self.soft_nm}))")
        force.addPerBondParameter("weight")
        for pair, weight in zip(CONTACTS, weights, strict=True): force.addBond(*pair, [float(weight)])
        return force


class Cube(Params):
    model: Literal["TICA", "DeepTICA", "PCA", "contacts"] = "TICA"
    depth_kT: float = Field(5.0, gt=0)  # of a contact; at 4.5 as many chains are folded as not
    latent: int = Field(2, ge=1, le=3)
    first: int = Field(200, ge=100)  # frames of the first training; then at 2, 4 and 8 times as many
    sim_ns: float = Field(10.0, gt=0)  # budget


wf = Workflow("cube", Cube, stop=lambda p: budget(sim_ns=p.sim_ns))

@wf.prepare
def build(p):
    system = openmm.System()
    for _ in FOLDED: system.addParticle(6.25)  # u: a time step of 5 fs is then safe
    chain = openmm.HarmonicBondForce()
    attract = openmm.CustomBondForce(f"{p.depth_kT * KT}*((1 + (0.32/r)^12)*(1 - exp(-(r - {BOND_NM})^2/0.0018)) - 1)")
    repel = openmm.CustomBondForce(f"{KT}*({BOND_NM}/r)^12")
    for i, j in combinations(range(BEADS), 2):
        if j == i + 1: chain.addBond(i, j, BOND_NM, 40_000.0)  # kJ/mol/nm^2
        elif (i, j) in CONTACTS: attract.addBond(i, j, [])
        else: repel.addBond(i, j, [])
    for force in (chain, attract, repel): system.addForce(force)
    atom = "ATOM  {0:5d}  CA  GLY A{0:4d}    {1:8.3f}{2:8.3f}{3:8.3f}  1.00  0.00           C"
    pdb = "\n".join([*(atom.format(n, *place) for n, place in enumerate(10 * FOLDED, start=1)), "END", ""])
    bonds = np.array([(i, i + 1) for i in range(BEADS - 1)], np.int32)
    return md.Molecule("G" * BEADS, openmm.XmlSerializer.serialize(system), pdb, FOLDED.astype(np.float32),
                       alpha=np.arange(BEADS, dtype=np.int32), bonds=bonds)

@wf.simulate(variables=md.VARIABLES)
def segment(p, start, out):
    settings = {"temperature_K": 300.0, "duration_ps": 50.0, "report_ps": 2.5, "timestep_fs": 5.0}
    for f in md.run(start, seed=out.seed, features=Touching(), platform="Reference", **settings):
        out.append(time=f.time_ps, positions=f.positions, features=f.features, bias=f.bias)
        if out.stopped: break
    out.state(velocities=f.velocities)

@wf.train(when=lambda p: doubling(first=p.first, last=8 * p.first))
def fit(p, frames, last):
    if p.model == "contacts":
        number = models.TICA(len(CONTACTS), latent=1)
        number.components.fill_(1.0)
        return number
    if p.model == "PCA": return models.PCA.fit(frames["features"], latent=p.latent)
    data, pairs = frames["features"], frames.lagged(5)
    if p.model == "TICA": return models.TICA.fit(data, pairs, latent=p.latent)
    return models.DeepTICA.fit(data, pairs, latent=p.latent, init=last)

@wf.score()
def place(p, model, frames):
    z, kept = model.encode(frames["features"]), frames["features"].sum(axis=1)
    return {"z": z[0] if isinstance(z, tuple) else z, "bias": frames["bias"], "made": kept, "unfolded": kept < 9}

wf.steer(bias=Opes("z", barrier_kT=14))

@wf.yardstick("highest", levels=(1,))
def unfolded(p, frames): return frames["features"].sum(axis=1) < 9
