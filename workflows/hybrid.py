"""How strong do the winds of a jet become? A coarse solver that a network corrects runs every jet; a fine one runs some
of them again, so that the mean is right however wrong the network is.

    steersman run hybrid
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, audits, budget, every, models
from steersman.apps import shallow_water as sw
from steersman.apps.shallow_water.forecasts import runs_of
from steersman.stages.start import Start
from steersman.store import Variable

DAYS, REPORTS = 6.0, 24  # of a jet; a report every 6 h, when the network corrects
TOLD = {"said": Variable((), "m s-1", "strongest wind by the coarse solver with the network, if there was one"),
        "truth": Variable((), "m s-1", "strongest wind by the fine solver, if it ran"),
        "version": Variable((), "1", "there was a network"), "audited": Variable((), "1", "the fine solver ran")}


class Winds(Params):
    truncation: int = Field(63, ge=22, le=341)  # of the fine solver
    coarse: int = Field(21, ge=5)  # of the one that a network corrects
    learn: int = Field(60, ge=2)  # jets by the fine solver, from which the network learns
    audits: float = Field(0.1, gt=0, le=1)  # share of later jets that the fine solver runs, too
    jets: int = Field(1000, ge=4)  # budget
    epochs: int = Field(16, ge=1)


wf = Workflow("hybrid", Winds, stop=lambda p: budget(sim_days=p.jets * DAYS))

@wf.simulate(variables=sw.VARIABLES | TOLD, batch=8)
def integrate(p, starts, outs):
    draws, network = [np.random.default_rng(out.seed) for out in outs], starts[0].model
    points, solver = [rng.standard_normal(8) for rng in draws], sw.Coarse(p.coarse)
    audited = [network is None or rng.random() < p.audits for rng in draws]
    fine = flows(np.flatnonzero(audited), points, truncation=p.truncation)
    quick = flows(range(len(outs)), points, truncation=p.coarse, corrector=network) if network else fine
    for jet, out in enumerate(outs):
        said, truth = (np.hypot(*runs[jet][-1, 1:]).max() for runs in (quick, fine if audited[jet] else quick))
        told = {"said": said, "truth": truth, "version": network is not None, "audited": audited[jet]}
        seen = solver.seen(fine[jet][None])[0] if audited[jet] else quick[jet]
        for number in range(0 if audited[jet] else REPORTS - 1, REPORTS):  # of the fine solver all, to be learned from
            height, u, v = seen[number]
            out.append(time=(number + 1) * DAYS / REPORTS, height=height, u=u, v=v, **told)

def flows(jets, points, **solver):  # jet -> (reports, 3, latitude, longitude) height, u, v
    given = {"seeds": list(jets), "parameters": [points[jet] for jet in jets]}
    reports = sw.run_members([Start()] * len(given["seeds"]), days=DAYS, **given, **solver) if len(jets) else []
    runs = np.array([[[frame.height, frame.u, frame.v] for frame in frames] for frames in reports])
    return {jet: runs[:, number] for number, jet in enumerate(jets)}

@wf.train(when=lambda p: every(frames=p.learn * REPORTS, last=p.learn * REPORTS))  # then it stays as it is
def fit(p, frames, last):
    return models.Corrector.fit(runs_of(frames), step=sw.Coarse(p.coarse), kept=(0,), epochs=p.epochs)

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
    return beside(whole(results.scores), "strongest wind on day 6", "m/s")
