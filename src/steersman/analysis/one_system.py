"""Runs -> whether all their frames are of one system, as far as their parameters say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from steersman.data.history import History
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.system.errors import BadInput


def differing(histories: Sequence[History], workflow: Workflow) -> Iterator[str]:
    """A sentence if the runs are of several workflows, and for each parameter that had several values in or among them.

    Those that only change when a run ends, or a model is trained, are left out.
    """
    names = dict.fromkeys(history.state.run.workflow for history in histories)
    if len(names) > 1:
        yield _said("the workflow", "", [*names])
        return  # whose parameters are others
    given: list[Mapping[str, Any]] = []
    for history in histories:
        asked, of = history.directory.settings()["params"], history.segments
        sets = np.append(history.starts["set"], 0)[np.minimum(of.start[of.made], len(history.starts))]
        given += [asked | history.sets[i] for i in np.unique(sets)] or [asked]  # with which segments made frames
    turns = workflow.conditions(loading.checked(workflow, given[-1]))
    for name in turns[0]:
        if len(several := sorted({turn[name] for turn in turns})) > 1:
            yield _said(name, "", several)
    for name in given[-1]:
        values: list[Any] = []
        for each in given:
            values += [each[name]] if name in each and each[name] not in values else []
        if len(values) > 1 and not _of_rules(name, values, given[-1], workflow):
            yield _said(name, "if it changes the dynamics, ", values)


def _said(name: str, condition: str, values: Sequence[Any]) -> str:
    return (
        f"{name} was {' and '.join(map(str, values))}: {condition}these frames are of several systems, and all results "
        "are for none of them."
    )


def _of_rules(name: str, values: Sequence[Any], params: Mapping[str, Any], workflow: Workflow) -> bool:
    """Whether the stop rule or that of training differs by a parameter, if they are rules that can be compared."""

    def rules(value: Any) -> tuple[Any, Any]:
        checked = loading.checked(workflow, {**params, name: value})
        return workflow.stop_rule(checked), workflow.train_rule(checked)

    try:
        first = rules(values[0])
        return first == rules(values[0]) and any(first != rules(value) for value in values[1:])
    except BadInput:  # the values of several runs together are none
        return False
