"""`error_rate<0.15`: a metric of held-out draws as a measure of runs, and the levels that it is to reach.

A metric that looks at all frames of a run cannot be compared between runs. Held-out draws are the same in every run of
a workflow and no training sees them, so what models make of them can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from steersman.data.history import History
from steersman.data.yardsticks import Curve, follow
from steersman.stages.workflow import Workflow
from steersman.system.errors import BadValue

WRITTEN = re.compile(r"\s*(\w+)\s*([<>])\s*([-+.\deE]+(?:\s*,\s*[-+.\deE]+)*)\s*")


@dataclass(frozen=True)
class HeldOutMetric:
    """A metric to compare by.

    Args:
        less: smaller values are better.
        levels: values whose first time is compared.
    """

    name: str
    less: bool
    levels: tuple[float, ...]

    def curve(self, history: History) -> Curve:
        return follow(history, self.name)


def parse(text: str, workflow: Workflow) -> HeldOutMetric:
    """Read what a person wrote. Raises: BadValue: it is no metric of the workflow, or nothing is held out there."""
    written = WRITTEN.fullmatch(text)
    if not written:
        raise BadValue("--metric", text, "write the levels to reach, e.g. error<0.2 or error<0.2,0.1 or accuracy>0.9")
    name, sign, levels = written.groups()
    if name not in workflow.metrics:
        raise BadValue("--metric", text, f"the metrics of {workflow.name} are {', '.join(workflow.metrics) or 'none'}")
    if workflow.held_out_function is None:
        raise BadValue(
            "--metric", text, f"{workflow.name} holds no draws out, so each run would be judged by frames of its own; "
            "use a @wf.yardstick, see docs/workflows.md",
        )  # fmt: skip
    try:
        return HeldOutMetric(name, sign == "<", tuple(float(level) for level in levels.split(",")))
    except ValueError:
        raise BadValue("--metric", text, "the levels are numbers, e.g. error<0.2,0.1") from None
