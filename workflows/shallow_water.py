"""How often does a jet breed a storm? An ensemble of shallow-water runs, drawn where a surrogate expects the extreme.

    steersman run shallow_water
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget
from steersman.apps import shallow_water as sw
from steersman.steering import DRAWN, Importance

DAYS, DIFFUSION_HOURS = 6.0, 4.0  # of a run


class Jets(Params):
    truncation: int = Field(31, ge=5, le=341)
    storm_m_s: float = Field(12.4, gt=0)  # northward or southward wind on the last day: one jet in a hundred
    runs: int = Field(200, ge=1)  # budget


wf = Workflow("shallow_water", Jets, stop=lambda p: budget(sim_days=p.runs * DAYS))
storms = Importance("storm", threshold=0.0, dimensions=8)

@wf.simulate(variables=sw.VARIABLES | DRAWN)
def integrate(p, start, out):
    draw = start.draw or storms.at_random(out.seed)  # no policy drew it: plain sampling
    jet = {"parameters": draw["point"], "truncation": p.truncation, "rows": sw.rows_for_networks(p.truncation)}
    for frame in sw.run(start, seed=out.seed, days=DAYS, diffusion_hours=DIFFUSION_HOURS, **jet):
        out.append(time=frame.time_days, **frame.stored, **draw)
        if out.stopped: break

def strength(p, frames):  # of the storm on the last day, above 0 where it is one
    wind = np.abs(frames["v"]).max(axis=(1, 2))
    return {"storm": np.log(np.maximum(wind, 1e-3) / p.storm_m_s), "whole": frames["time"] > DAYS - 0.01}

@wf.score()
def measure(p, model, frames): return strength(p, frames) | {name: frames[name] for name in DRAWN}

wf.steer(storms)

@wf.yardstick(levels=(2, 10))
def storms_found(p, frames):  # a jet is known by its first parameter
    found = strength(p, frames)
    return np.where(found["whole"] & (found["storm"] > 0), np.abs(frames["point"][:, 0]).view(np.int64), -1)

@wf.metric
def storms_percent(scores): return 100 * storms.estimate(scores).probability

@wf.figure("How often it is extreme")
def extremes(p, results):
    from steersman.apps.shallow_water.figures import probability
    return probability(storms.estimates(results.scores), f"winds along the meridian above {p.storm_m_s:g} m/s")
