"""Score stage -> the names of its scores, as far as its text says them, and which of those that are asked for lack."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator
from typing import Any

from steersman.stages.kinds.train import Train
from steersman.stages.workflow import Workflow
from steersman.steering import Steering

TAKEN = ("frame", "walker", "row", "segment", "time")  # columns of `run.scores`, beside the scores
NAME_TAKEN = "it cannot have this name, for the engine's own columns do; take another"
OTHERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)  # whose returns are their own


def lacking(workflow: Workflow, steering: Steering, there: Collection[str]) -> str:
    """Which score steering or the gate of models asks for that is not among these, or which cannot be one, or ""."""
    taken = {*TAKEN, *steering.adds}
    if odd := sorted(taken.intersection(there)):
        return f"score {odd[0]!r}: {NAME_TAKEN}"
    training, known = workflow.training, ", ".join(sorted(there)) or "none"
    if problem := steering.lacks(there):
        return f"{problem}; it returns: {known}"
    needs = [("steering", name) for name in (*steering.needs, *steering.fallback.needs)]
    gate = training.gate if training else Train.gate
    needs += [("the gate of @wf.train", gate)] if isinstance(gate, str) and gate != Train.gate else []
    for who, name in needs:
        if name not in there:
            return f"{who} needs the score {name!r}, but the score stage returns: {known}"
    return ""


def written(function: Callable[..., Any]) -> set[str] | None:
    """The names of the scores, where each return of a score function is a dict with its names written out; else None,
    and they are known when something was scored."""
    if hasattr(function, "__wrapped__"):  # what wraps it may add some
        return None
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(definition, ast.FunctionDef):
        return None
    returned = [each.value for each in _within(definition) if isinstance(each, ast.Return)]
    names: set[str] = set()
    for value in returned:
        if not isinstance(value, ast.Dict):
            return None
        for key in value.keys:
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                return None
            names.add(key.value)
    return names or None


def _within(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, OTHERS):
            yield child
            yield from _within(child)
