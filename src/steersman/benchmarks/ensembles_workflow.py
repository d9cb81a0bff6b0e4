"""The workflow that `steersman bench ensembles` runs: a weighted ensemble between two wells."""

from steersman import Params, Workflow, budget
from steersman.apps import double_well
from steersman.steering import WeightedEnsemble

STEPS, REPORT, BARRIER_KT, TIMESTEP = 20, 5, 6.0, 1e-3
EDGES, MEMBERS, ROUNDS = (-0.9, -0.6, -0.3, 0.0, 0.3, 0.6), 8, 100


class Ensemble(Params):
    frames: int = ROUNDS * (len(EDGES) + 1) * MEMBERS * STEPS // REPORT  # of some more rounds: first bins are empty


wf = Workflow("ensembles", Ensemble, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables=double_well.VARIABLES)
def segment(p, start, out):
    run = double_well.run(start, seed=out.seed, steps=STEPS, report=REPORT, barrier_kT=BARRIER_KT, timestep=TIMESTEP)
    for time, position in run:
        out.append(time=time, position=position)


@wf.score()
def place(p, model, frames):
    return {"x": frames["position"][:, 0]}


wf.steer(WeightedEnsemble("x", EDGES, members=MEMBERS))
