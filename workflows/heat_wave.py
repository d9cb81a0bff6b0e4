"""How often does it blow so hard behind a mountain for three days? A network forecasts what will come of each member of
a stirred flow, and members are split where it will come, days before it does.

    steersman run heat_wave
"""
from dataclasses import replace

from pydantic import Field

from steersman import Params, Workflow, budget, every, models
from steersman.apps import shallow_water as sw
from steersman.steering import Splitting

DAYS, MEMBERS = 10, 64  # of a window; the event is of its last three days
FLOW = {"case": "stirred_mountains", "truncation": 15, "step_s": 8640.0, "report_hours": 24.0}


class Gales(Params):
    gale_m2_s2: float = Field(297.0, gt=0)  # v^2 in the box behind the first mountain: one window in a thousand
    windows: int = Field(20, ge=2)  # budget
    plain: int = Field(3, ge=1)  # windows of plain sampling, which the first forecast is learned from


wf = Workflow("heat_wave", Gales, stop=lambda p: budget(sim_days=p.windows * DAYS * MEMBERS))
gale = Splitting("gale", window=DAYS, members=MEMBERS)

@wf.prepare
def archive(p): return sw.stationary(MEMBERS, 60, **FLOW)  # states to begin from

@wf.simulate(variables=sw.VARIABLES, batch=32)
def day(p, starts, outs):
    begun = [start if "state" in start.frame else sw.drawn(start, out.seed) for start, out in zip(starts, outs)]
    for frames in sw.run_members(begun, seeds=[out.seed for out in outs], days=1, **FLOW):
        for start, out, f in zip(starts, outs, frames):
            if isinstance(f, Exception):
                out.fail(f)
                continue
            age, sum_so_far = start.frame.get("age", 0) + 1, start.frame.get("gale", 0.0)
            out.append(time=f.time_days, age=age, gale=sum_so_far + sw.box(f.v) / 3 * (age > DAYS - 3), **f.stored)

@wf.train(when=lambda p: every(frames=p.plain * DAYS * MEMBERS))
def learn(p, frames, last):
    ...
