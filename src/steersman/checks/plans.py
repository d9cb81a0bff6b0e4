"""Plans, tried in this process: each task is called once, and its result stands for those of its other calls."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from steersman.stages.task import NOBODY, Later, planned_by, resolved
from steersman.stages.workflow import Workflow


class Once:
    """A planner that calls each task with the arguments of its first call."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow, self._made, self.calls = workflow, dict[str, Any](), Counter[str]()

    def call(self, name: str, given: Any, copy: int) -> Later:
        self.calls[name] += 1
        if name not in self._made:
            args, options = resolved(given)
            folder = TemporaryDirectory(prefix="steersman-try-")
            with folder, contextlib.chdir(folder.name), planned_by(NOBODY):
                self._made[name] = self._workflow.tasks[name].function(*args, **options)
        later = Later(f"{name} {self.calls[name]}", lambda: self._made[name], f"{name}(...)")
        later.set_result(None)
        return later


def tried(workflow: Workflow, plan: Callable[..., Any], *given: Any) -> tuple[Any, str]:
    """What a plan gives, and in words what it called."""
    once = Once(workflow)
    with planned_by(once):
        made = resolved(plan(*given))
    called = ", ".join(f"{number} x {name}" for name, number in once.calls.items())
    return made, type(made).__name__ + (f"; it calls {called}, each tried once" if called else "; it calls no task")
