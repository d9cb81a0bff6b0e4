"""The workflow that `steersman bench tasks` runs: tasks that do nothing, one that needs all, and a segment."""

from steersman import Params, Workflow, budget


class Tasks(Params):
    tasks: int = 1000
    frames: int = 1


wf = Workflow("tasks", Tasks, stop=lambda p: budget(frames=p.frames))


@wf.task
def one(i):
    return i


@wf.task
def total(parts):
    return sum(parts)


@wf.before
def plan(p):
    return total.later([one.later(i) for i in range(p.tasks)])


@wf.simulate
def segment(p, start, out):
    out.append(x=float(start.prepared))
