"""How long does alanine dipeptide take to its left-handed basin (134 ns), and how long does it stay there (3 ns)?

Both in a few ns: a committor learned from hot frames is pushed along by less than the barrier, and where the basins are
left no bias acts. So rates stay right, and time runs faster.

    steersman run examples/left_basin.py
"""

import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps import molecular_dynamics as md
from steersman.steering import Opes, life

REPORT_PS = 0.1
BASINS = (-2.9, -0.7), (0.7, 1.4)  # rad: phi where a molecule has come to the right- or to the left-handed one
KEPT = "bias", "hot", "basin", "left", "faster"


class LeftBasin(Params):
    push_kT: float = Field(6.0, gt=2)  # of 13; where 5 or less are left, lives come out too long
    learn: int = Field(10_000, ge=100)  # hot frames
    sim_ns: float = Field(8.0, gt=0)  # budget


wf = Workflow("left_basin", LeftBasin, stop=lambda p: budget(sim_ns=p.sim_ns))


@wf.prepare
def build(p):
    return md.build_peptide("A", capped=True)


@wf.simulate(variables=md.VARIABLES)
def segment(p, start, out):
    torsions, basin = md.Torsions.backbone(start.prepared), start.frame.get("basin", 0)
    settings = {"temperature_K": 300.0, "hot_K": 1000.0, "duration_ps": 4.0, "report_ps": REPORT_PS}
    exit_kT = start.bias.energy(np.zeros(1)).item() if start.bias else 0.0  # where the committor is 1/2
    for f in md.run(start, seed=out.seed, features=torsions, platform="Reference", **settings):
        phi = np.arctan2(f.features[1], f.features[0])
        before, basin = basin, next((i for i, (low, high) in enumerate(BASINS) if low < phi < high), basin)
        out.append(
            time=f.time_ps,
            positions=f.positions,
            features=f.features,
            bias=f.bias,
            hot=f.hot,
            basin=basin,
            left=basin != before,
            faster=np.exp(f.bias - exit_kT),
        )
        if out.stopped:
            break
    out.state(velocities=f.velocities)


@wf.train(when=lambda p: every(frames=p.learn, last=p.learn))
def fit(p, frames, last):
    known = np.random.default_rng(0).normal((1.05, 0.7), (0.15, 0.4), (300, 2))  # phi, psi: where the basin is
    x = np.concatenate([frames["features"], np.stack([np.cos(known), np.sin(known)], 2).reshape(300, 4)])
    phi, weights = np.arctan2(x[:, 1], x[:, 0]), np.append(np.ones(frames.rows), np.zeros(300))
    begin, end = ((phi > low) & (phi < high) for low, high in BASINS)
    return models.Committor.fit(x, frames.lagged(1), begin=begin, end=end, weights=weights, hidden=(16,))


@wf.score()
def place(p, model, frames):
    return {"z": model.encode(frames["features"]), **{name: frames[name] for name in KEPT}}


wf.steer(bias=lambda p: Opes("z", barrier_kT=p.push_kT))


def of(scores, basin):  # the other one is where a frame is that has just left it
    hot, now, left, faster = (scores.values[name] for name in ("hot", "basin", "left", "faster"))
    there, gone = (hot == 0) & (now == basin), (hot == 0) & (now != basin) & (left > 0)
    return life(REPORT_PS * faster[there].sum(), int(gone.sum())).value


@wf.metric
def way_there_ps(scores):
    return of(scores, 0)


@wf.metric
def life_ps(scores):
    return of(scores, 1)
