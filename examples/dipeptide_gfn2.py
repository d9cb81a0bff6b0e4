"""A force field of alanine dipeptide, learned from a quantum-chemical code (GFN2-xTB) while it simulates.

pip install tblite; steersman run examples/dipeptide_gfn2.py
"""

from io import StringIO

import ase.io
from ase.optimize import BFGS
from pydantic import Field

from steersman import Params, Workflow, budget, every, trusted
from steersman.apps import atoms
from steersman.apps import molecular_dynamics as md
from steersman.steering import Doubtful, Unsteered

DOUBT = 0.2  # eV/angstrom


class Dipeptide(Params):
    temperature_K: float = Field(300.0, gt=0)
    labels: int = Field(300, ge=20)  # budget
    learn: int = Field(240, ge=10)  # labels from which on the network stays as it is
    trust: float = Field(0.4, gt=0)  # error of the worst force, eV/angstrom


wf = Workflow("dipeptide_gfn2", Dipeptide, stop=lambda p: trusted(below=p.trust) | budget(labels=p.labels))


def code():
    from tblite.ase import TBLite  # wants to be loaded where it computes

    return TBLite(method="GFN2-xTB", verbosity=0)


@wf.prepare
def relaxed(p):
    molecule = ase.io.read(StringIO(md.build_peptide("A", capped=True).pdb), format="proteindatabank")
    molecule.calc = code()
    BFGS(molecule, logfile=None).run(fmax=0.1)
    molecule.calc = None
    molecule.info = {}
    return molecule


@wf.simulate(variables=atoms.VARIABLES, exact=True)
def simulate(p, start, out):
    if start.model is None:
        atoms.rattle(start, out, stdev=0.05, strain=0.0)
        return
    potential, hot = start.model.calculator(), p.temperature_K
    atoms.run(start, out, potential, temperature_K=hot, timestep_fs=0.5, segment_ps=0.2, doubt_above=5 * DOUBT)


@wf.label(variables=atoms.ANSWERS, error=atoms.force_error)
def quantum(p, frame):
    return atoms.answer(frame, code())


@wf.train(when=lambda p: every(labels=40, last=p.learn), gate=atoms.mean_force_error)
def learn(p, frames, last):
    return atoms.fit(frames.labelled, init=last, epochs=80 if last is None else 40, cutoff=5.0)


@wf.score(early=True)
def score(p, model, frames):
    return {"energy": frames["energy"]} | ({} if model is None else {"spread": frames["spread"]})


wf.steer(Unsteered(), label=Doubtful("spread", above=DOUBT, most=10, audits=0.1))
