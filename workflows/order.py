"""Where does gold order in copper? A surrogate counts configurations, some hundred expensive energies correct it.

    steersman run order --rounds
"""
from functools import cache

from pydantic import Field

from steersman import Params, Workflow, budget, every, reached
from steersman.apps import alloys
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.optimize import LBFGS

class Order(Params):
    gold: int = Field(8, ge=1, le=31)  # atoms of 32
    learn: int = Field(80, ge=20)  # energies before each of two trainings
    calls: int = Field(2000, ge=1)  # budget of expensive energies
    interval_K: float = Field(8.0, gt=0)  # goal: width of the interval of 95 %
    measure: int = Field(16_000, ge=400)  # steps of 512 walkers that count configurations; few are for tests

wf = Workflow("order", Order,
              stop=lambda p: budget(frames=p.calls) | reached("interval_K", p.interval_K, below=True))

@cache
def lattice(gold): return alloys.Lattice(bulk("Cu", "fcc", a=3.72, cubic=True).repeat(2), "Au", gold)

def energy(atoms):  # eV of relaxed atoms: take another calculator, or a DFT code (docs/alloys.md)
    atoms.calc = EMT()
    LBFGS(atoms, logfile=None).run(fmax=0.02)
    return atoms.get_potential_energy()

@wf.simulate(variables=alloys.VARIABLES)
def audit(p, start, out):
    frames = alloys.audits(lattice(p.gold), start.model, energy, seed=out.seed, after=start.frame)
    for frame in frames: out.append(**frame)

@wf.train(when=lambda p: every(frames=p.learn, last=2 * p.learn))  # then the surrogate stays as it is
def fit(p, frames, last): return alloys.Surrogate.fit(lattice(p.gold), frames, last=last, measure=p.measure)

@wf.score()
def judge(p, model, frames): return alloys.judged(model, frames)

@wf.metric
def interval_K(scores): return alloys.width_K(scores.values)

@wf.figure("Order and disorder")
def curves(p, results): return alloys.curves(results.scores.values, exact=p.gold == 8)
