"""The workflow that `steersman bench loop` runs: chignolin in segments of 2 ps, each frame with its times."""

import time

from steersman import Params, Workflow, budget, every, models
from steersman.apps import molecular_dynamics as md
from steersman.apps.molecular_dynamics.context import SimulationContext
from steersman.steering import LocalOutlierFactor, Novelty, Random
from steersman.store import Variable

TIMES = {
    "stepping": Variable((), "s", "when the segment's first step began, since 1970"),
    "made": Variable((), "s", "when the frame was made, since 1970"),
}


class Loop(Params):
    hours: float = 0.02
    segment_ps: float = 2.0
    train_every: int = 1_000


wf = Workflow("loop", Loop, stop=lambda p: budget(hours=p.hours))
first_steps: list[float] = []


@wf.prepare
def build(p):
    return md.build_peptide("YYDPETGTWY")


@wf.simulate(variables=md.VARIABLES | TIMES)
def fold(p, start, out):
    first_steps.clear()
    for frame in md.run(start, temperature_K=300.0, duration_ps=p.segment_ps, seed=out.seed):
        times = {"stepping": first_steps[0], "made": time.time()}
        out.append(time=frame.time_ps, contacts=frame.contacts, positions=frame.positions, **times)
        if out.stopped:
            break


@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p, frames, last):
    return models.CVAE.fit(frames["contacts"], init=last)


@wf.score()
def embed(p, model, frames):
    z, error = model.encode(frames["contacts"])
    return {"z": z, "error": error}


wf.steer(LocalOutlierFactor("z") | Novelty("z"), explore=0.2, fallback=Random())

_step = SimulationContext.step


def _noted_step(self, steps):
    first_steps.append(time.time())
    _step(self, steps)


SimulationContext.step = _noted_step  # type: ignore[method-assign]
