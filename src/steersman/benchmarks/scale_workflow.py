"""The workflow that `steersman bench scale` runs: segments that sleep, and leave a few small frames."""

import time

from steersman import Params, Workflow, budget
from steersman.steering import Random
from steersman.store import Variable

FRAMES = 4
NAP_S = 10.0  # a stop is noticed so late; thousands of threads that wake more often are work that no simulation makes


class Scale(Params):
    hours: float = 0.05
    segment_s: float = 30.0


wf = Workflow("scale", Scale, stop=lambda p: budget(hours=p.hours))
wf.steer(Random())


@wf.simulate(
    variables={
        "stepping": Variable((), "s", "when the segment's first step began, since 1970"),
        "made": Variable((), "s", "when the frame was made, since 1970"),
        "x": Variable(("x",), "1", "something small"),
    }
)
def nap(p, start, out):
    began = time.time()
    for number in range(1, FRAMES + 1):
        while not out.stopped and (left_s := began + number * p.segment_s / FRAMES - time.time()) > 0:
            time.sleep(min(left_s, NAP_S))
        out.append(stepping=began, made=time.time(), x=[float(number)] * 8)
        if out.stopped:
            break
