"""The workflow that `steersman bench peers` runs: segments of one frame, made in a given time."""

import time

from steersman import Params, Workflow, budget
from steersman.steering import Random


class Tasks(Params):
    tasks: int = 300
    task_s: float = 0.01


wf = Workflow("peers", Tasks, stop=lambda p: budget(frames=p.tasks))


@wf.simulate
def task(p, start, out):
    began = time.time()
    time.sleep(p.task_s)
    out.append(began=began, ended=time.time())


wf.steer(Random())  # a start is chosen ahead; a lineage that goes on waits until its segment has been stored
