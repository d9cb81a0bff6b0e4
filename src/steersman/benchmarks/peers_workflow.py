"""The workflow that `steersman bench peers` runs: segments of one frame, made in a given time."""

import time

from steersman import Params, Workflow, budget


class Tasks(Params):
    tasks: int = 300
    task_s: float = 0.01


wf = Workflow("peers", Tasks, stop=lambda p: budget(frames=p.tasks))


@wf.simulate
def task(p, start, out):
    began = time.time()
    time.sleep(p.task_s)
    out.append(began=began, ended=time.time())
