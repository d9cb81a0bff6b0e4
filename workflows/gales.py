"""How often does it storm for three days? Members are split where a network forecasts it, days before it comes.

    steersman run gales"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, every, models, steering
from steersman.apps import shallow_water as sw

DAYS, MEMBERS, FRAMES, NORTH = 10, 64, 640, 12  # of a window; rows of the grid
FLOW = {"case": "stirred_mountains", "truncation": 15, "step_s": 8640.0, "report_hours": 24.0, "diffusion_hours": 24.0}

class Gales(Params):
    storm_m_s: float = Field(26.0, gt=0)  # wind across the jet on the last three days of a window: 1 in 1,000
    windows: int = Field(20, ge=6)  # budget; the first five are plain sampling, and the network learns after each five

wf = Workflow("gales", Gales, stop=lambda p: budget(sim_days=p.windows * FRAMES))
wf.steer(rare := steering.Splitting("storm", window=DAYS, members=MEMBERS))
@wf.prepare
def archive(p): return sw.stationary(MEMBERS, 60, **FLOW)  # states to begin from

@wf.simulate(variables=sw.VARIABLES, exact=True, batch=32)
def day(p, starts, outs):
    for start, out, f in sw.run_batch(starts, outs, days=1, **FLOW):  # winds of three days, behind the first mountain
        winds = np.append(start.frame.get("winds", np.zeros(3))[1:], np.sqrt(sw.box(f.v**2, (30, 60), (0, 45))))
        age, storm = start.frame.get("age", 0) + 1, np.sqrt((winds**2).mean())
        out.append(time=f.time_days, age=age, height=f.height, v=f.v, winds=winds, storm=storm)
        out.state(state=f.state)

def seen(frames):  # by a forecast: height and wind of the hemisphere, and the box today and yesterday
    fields = np.stack([frames["height"], frames["v"]], 1)[:, :, :NORTH]
    return np.concatenate([fields, np.broadcast_to(frames["winds"][:, 1:, None, None], fields.shape)], 1)

def came(frames): return frames.fate("storm", window=range(3, DAYS + 1))  # until any day: the flow knows no age
def error(model, frames): return model.error(seen(frames), came(frames))  # of first members that no training saw
@wf.train(when=lambda p: every(frames=5 * FRAMES, last=(p.windows - 5) * FRAMES), gate=error)
def learn(p, frames, last): return models.Outlook.fit_fate(seen(frames), came(frames), init=last)

@wf.score()
def forecast(p, model, frames):
    mean, spread = model.forecast(seen(frames), DAYS - frames["age"])
    return {"storm": frames["storm"] - p.storm_m_s, "mean": mean - p.storm_m_s, "spread": spread}

@wf.metric
def probability(scores): return rare.estimate(scores).probability

@wf.panel("What the network looks at")
def looks(p, results):
    slope = np.sqrt((results.model.gradient(seen(results.held_out), 4.0)[:, 1] ** 2).mean(0))
    return np.pad(slope, ((0, NORTH), (0, 0))), "Bright: where the wind matters four days before the end."
