"""A workflow -> what it is made of, and what of that does not fit together."""

from __future__ import annotations

import re
from typing import Any

from steersman.stages.kinds import KINDS
from steersman.stages.workflow import Workflow


def outline(workflow: Workflow) -> dict[str, str]:
    """What two workflows of one file share, if neither was changed since: by its part, in words."""
    parts: dict[str, Any] = {"name": workflow.name, "stop": workflow.stop, "steering": workflow.steering}
    parts |= {"most_failures": workflow.most_failures, "params": workflow.params.model_json_schema()}
    for name, kind in KINDS.items():
        made = getattr(workflow, kind.kept)
        parts |= {f"{name} {each}": stage for each, stage in made.items()} if isinstance(made, dict) else {name: made}
    return {part: re.sub(r" at 0x[0-9a-f]+", "", repr(value)) for part, value in parts.items()}


def problems(workflow: Workflow) -> list[str]:
    """What is missing or does not fit together."""
    found = []
    if workflow.simulation is None:
        found.append("no simulate stage: decorate a function with @wf.simulate()")
    if workflow.training is not None and workflow.scoring is None:
        found.append("a train stage but no score stage: decorate a function with @wf.score()")
    if workflow.prepare_function and workflow.before_plan:
        found.append("both @wf.prepare and @wf.before make start.prepared: keep one, and call the other a task")
    for plan in filter(None, (workflow.before_plan, workflow.after_plan)):
        if plan.__name__ in workflow.tasks:
            found.append(f"{plan.__name__} is the name of a task and of a plan: rename one")
    steering = workflow.steering
    if workflow.held_out_function and steering.policy.rounds:
        found.append(f"{steering.policy.name} chooses every start, so no draw can be held out: remove @wf.held_out")
    needs = (*steering.needs, *steering.fallback.needs)
    if needs and workflow.scoring is None:
        found.append(f"steering needs scores {', '.join(dict.fromkeys(needs))} but there is no @wf.score()")
    return found
