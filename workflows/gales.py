"""How often does it storm behind a mountain for three days? A network forecasts what will come of each member of a
stirred flow, and members are split where a storm will come, days before it does.

    steersman run gales
"""
import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps import shallow_water as sw
from steersman.steering import Splitting

DAYS, MEMBERS, NORTH = 10, 64, 12  # of a window; rows of the grid
FRAMES = DAYS * MEMBERS
FLOW = {"case": "stirred_mountains", "truncation": 15, "step_s": 8640.0, "report_hours": 24.0, "diffusion_hours": 24.0}


class Gales(Params):
    storm_m_s: float = Field(26.0, gt=0)  # wind across the jet on the last three days of a window: 1 in 1,000
    windows: int = Field(20, ge=2)  # budget
    learn: int = Field(5, ge=1)  # windows from one training to the next; the first ones are plain sampling


wf = Workflow("gales", Gales, stop=lambda p: budget(sim_days=p.windows * FRAMES))
rare = Splitting("storm", window=DAYS, members=MEMBERS)

@wf.prepare
def archive(p): return sw.stationary(MEMBERS, 60, **FLOW)  # states to begin from

@wf.simulate(variables=sw.VARIABLES, exact=True, batch=32)
def day(p, starts, outs):
    for start, out, f in sw.run_batch(starts, outs, days=1, **FLOW):
        wind = np.sqrt(sw.box(f.v**2, (30, 60), (0, 45)))  # behind the first mountain
        winds = np.append(start.frame.get("winds", np.zeros(3))[1:], wind)  # of three days
        age, storm = start.frame.get("age", 0) + 1, np.sqrt((winds**2).mean())
        out.append(time=f.time_days, age=age, height=f.height, v=f.v, winds=winds, storm=storm)
        out.state(state=f.state)

def seen(frames):  # by a forecast: height and wind of the hemisphere, and the box today and yesterday
    fields = np.stack([frames["height"], frames["v"]], 1)[:, :, :NORTH]
    return np.concatenate([fields, np.broadcast_to(frames["winds"][:, 1:, None, None], fields.shape)], 1)

def came(frames): return frames.fate("storm", window=range(3, DAYS + 1))  # until any day: the flow knows no age

def error(model, frames): return model.error(seen(frames), came(frames))  # of first members that no training saw

@wf.train(when=lambda p: every(frames=p.learn * FRAMES, last=max(p.windows - p.learn, 1) * FRAMES), gate=error)
def learn(p, frames, last): return models.Outlook.fit_fate(seen(frames), came(frames), init=last)

@wf.score()
def forecast(p, model, frames):
    mean, spread = model.forecast(seen(frames), DAYS - frames["age"])
    return {"storm": frames["storm"] - p.storm_m_s, "mean": mean - p.storm_m_s, "spread": spread}

wf.steer(rare)

@wf.metric
def probability(scores): return rare.estimate(scores).probability

@wf.panel("What the network looks at")
def looks(p, results):
    slope = results.model.gradient(seen(results.held_out), 4.0)[:, 1]
    words = "Bright: where the wind matters four days before. The mountain is in front, the box to the east of it."
    return np.pad(np.sqrt((slope**2).mean(0)), ((0, NORTH), (0, 0))), words
