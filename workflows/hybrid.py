"""How strong do the winds of a jet become? A coarse solver that a network corrects runs every jet; a fine one runs some
of them again, so that the mean is right however wrong the network is.

    steersman run hybrid
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, audits, budget, every, models
from steersman.apps import shallow_water as sw
from steersman.apps.shallow_water.forecasts import runs_of
from steersman.store import Variable

DAYS, REPORTS = 6.0, 24  # of a jet; a report every 6 h, when the network corrects
TOLD = {"said": Variable((), "m s-1", "strongest wind by the coarse solver with the network, if there was one"),
        "truth": Variable((), "m s-1", "strongest wind by the fine solver, if it ran"),
        "version": Variable((), "1", "there was a network"), "audited": Variable((), "1", "the fine solver ran")}


class Ensemble(Params):
    truncation: int = Field(63, ge=22, le=341)  # of the fine solver
    coarse: int = Field(21, ge=5)  # of the one that a network corrects
    learn: int = Field(60, ge=2)  # jets by the fine solver, from which the network learns
    audits: float = Field(0.1, gt=0, le=1)  # share of later jets that the fine solver runs, too
    jets: int = Field(600, ge=4)  # budget
    epochs: int = Field(16, ge=1)


wf = Workflow("hybrid", Ensemble, stop=lambda p: budget(sim_days=p.jets * DAYS))

@wf.simulate(variables=sw.VARIABLES | TOLD)
def integrate(p, start, out):
    rng, network = np.random.default_rng(out.seed), start.model
    jet = {"seed": out.seed, "parameters": rng.standard_normal(8), "days": DAYS}
    audited = network is None or rng.random() < p.audits
    fine = list(sw.run(start, truncation=p.truncation, **jet)) if audited else []
    quick = list(sw.run(start, truncation=p.coarse, corrector=network, **jet)) if network else fine
    said, truth = (np.hypot(runs[-1].u, runs[-1].v).max() for runs in (quick, fine or quick))
    told = {"said": said, "truth": truth, "version": network is not None, "audited": audited}
    seen = sw.Coarse(p.coarse).seen(fields(fine)[None])[0] if audited else fields(quick)
    for number in range(0 if audited else REPORTS - 1, REPORTS):  # what the fine solver ran is learned from
        height, u, v = seen[number]
        out.append(time=(number + 1) * DAYS / REPORTS, height=height, u=u, v=v, **told)
        if out.stopped: break

def fields(frames): return np.stack([np.stack([frame.height, frame.u, frame.v]) for frame in frames])

@wf.train(when=lambda p: every(frames=p.learn * REPORTS, last=p.learn * REPORTS))  # then it stays as it is
def fit(p, frames, last):
    solver = sw.Coarse(p.coarse)
    told = {"step": solver, "solver": solver.settings, "kept": (0,), "epochs": p.epochs}
    return models.Corrector.fit(runs_of(frames), **told)

@wf.score(early=True)
def tell(p, model, frames):
    last = frames["time"] > DAYS - 0.01
    return {name: frames[name] for name in TOLD} | {"whole": last, "failed": ~last | (frames["audited"] == 0)}

def whole(scores): return {name: column[scores.values["whole"]] for name, column in scores.values.items()}

@wf.metric
def strongest_wind(scores): return audits.mean(whole(scores)).value

@wf.figure("How wrong the network is")
def wrong(p, results):
    from steersman.apps.shallow_water.figures import beside
    return beside(whole(results.scores), "strongest wind on day 6, m/s")
