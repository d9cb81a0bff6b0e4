"""Calls of tasks before and after the loop -> a graph for the page: nodes in columns, and what flows between them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from steersman.journal.state import State

MOST_CALLS = 100  # more are shown by the names of their tasks


def graph(state: State) -> dict[str, Any]:
    """The nodes, each with its column (behind all that it needs) and how many calls stand how; edges by their indices.

    A node is a call, with its arguments, or all calls of a task where there are many.
    """
    calls, single = state.calls, len(state.calls) <= MOST_CALLS
    of = {key: key if single else call.called.task for key, call in calls.items()}
    column: dict[str, int] = {}  # calls are made after what they need
    for key, call in calls.items():
        column[key] = max((column[need] + 1 for need in call.called.needs if need in column), default=0)
    nodes: dict[str, dict[str, Any]] = {}
    for key, call in calls.items():
        made = {"name": call.called.task, "words": call.called.words if single else "", "column": column[key]}
        node = nodes.setdefault(of[key], {**made, "counts": Counter[str]()})
        node["counts"][call.standing(calls)] += 1
    at = {name: i for i, name in enumerate(nodes)}
    edges = {(at[of[need]], at[of[key]]) for key, call in calls.items() for need in call.called.needs if need in calls}
    return {"nodes": list(nodes.values()), "edges": sorted(edge for edge in edges if edge[0] != edge[1])}
