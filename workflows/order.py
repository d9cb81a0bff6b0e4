"""Where does gold order in copper? A surrogate counts configurations, some hundred expensive energies correct it.

    steersman run order
"""
from functools import cache

from pydantic import Field

from steersman import Params, Workflow, budget, every, reached
from steersman.apps import alloys


class Order(Params):
    gold: int = Field(8, ge=1, le=31)  # atoms of 32
    learn: int = Field(80, ge=20)  # energies before each of two trainings
    calls: int = Field(800, ge=1)  # budget of expensive energies
    interval_K: float = Field(8.0, gt=0)  # goal: width of the interval of 95 %
    bin_eV: float = Field(0.025, gt=0)  # about kT
    measure: int = Field(16_000, ge=100)  # steps of each of 512 walkers that count configurations


wf = Workflow("order", Order,
              stop=lambda p: budget(frames=p.calls) | reached("interval_K", p.interval_K, below=True))

def energy(atoms):  # eV of relaxed atoms: another calculator, or a DFT code, see docs/alloys.md
    from ase.calculators.emt import EMT
    from ase.optimize import LBFGS
    atoms.calc = EMT()
    LBFGS(atoms, logfile=None).run(fmax=0.02)
    return atoms.get_potential_energy()

@cache
def lattice(gold):
    from ase.build import bulk
    return alloys.Lattice(bulk("Cu", "fcc", a=3.72, cubic=True).repeat(2), "Au", gold)

@wf.simulate(variables=alloys.VARIABLES)
def audit(p, start, out):
    for frame in alloys.audits(lattice(p.gold), start.model, energy, seed=out.seed): out.append(**frame)

@wf.train(when=lambda p: every(frames=p.learn, last=2 * p.learn))  # then the surrogate stays as it is
def fit(p, frames, last):
    return alloys.Surrogate.fit(lattice(p.gold), frames, last=last, bin_eV=p.bin_eV, measure=p.measure)

@wf.score()
def judge(p, model, frames): return alloys.judged(model, frames)

@wf.metric
def interval_K(scores): return alloys.width_K(scores.values)
