"""Runs -> whether all their frames are of one system, as far as their parameters say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from steersman.data.history import History
from steersman.stages import loading
from steersman.stages.workflow import Workflow


def differing(histories: Sequence[History], workflow: Workflow) -> Iterator[str]:
    """A sentence if the runs are of several workflows, and for each parameter that had several values in or among them.

    Those that only change when a run ends, or a model is trained, are left out.
    """
    names = dict.fromkeys(history.state.run.workflow for history in histories)
    if len(names) > 1:
        yield _said("the workflow", "", [*names])
    params: list[dict[str, Any]] = []
    for history in histories:
        params += [dict(history.directory.settings()["params"]), dict(history.settings()["params"])]
    for name in params[-1]:
        values: list[Any] = []
        for each in params:
            values += [each[name]] if name in each and each[name] not in values else []
        if len(values) > 1 and not _of_rules(name, values, params[-1], workflow):
            yield _said(name, "if simulate uses it, ", values)


def _said(name: str, condition: str, values: Sequence[Any]) -> str:
    return (
        f"{name} was {' and '.join(map(str, values))}: {condition}these frames are of several systems, and all results "
        "are for none of them."
    )


def _of_rules(name: str, values: Sequence[Any], params: dict[str, Any], workflow: Workflow) -> bool:
    found = [loading.checked(workflow, params | {name: value}) for value in values]
    rules = [(workflow.stop_rule(each), workflow.train_rule(each)) for each in found]
    return any(rule != rules[0] for rule in rules)
