"""Steersman: a workflow engine that couples simulations with deep learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steersman.analysis.comparison.calls import compare as compare
    from steersman.analysis.comparison.calls import tune as tune
    from steersman.calls.opened import Run as Run
    from steersman.calls.opened import open_run as open_run
    from steersman.calls.run import run as run
    from steersman.stages.out import Out as Out
    from steersman.stages.rules import doubling as doubling
    from steersman.stages.rules import every as every
    from steersman.stages.start import Start as Start
    from steersman.stages.workflow import Params as Params
    from steersman.stages.workflow import Workflow as Workflow
    from steersman.steering import audits as audits
    from steersman.steering import budget as budget
    from steersman.steering import plateau as plateau
    from steersman.steering import reached as reached

_HOMES = {
    "Out": "steersman.stages.out",
    "Run": "steersman.calls.opened",
    "open_run": "steersman.calls.opened",
    "Params": "steersman.stages.workflow",
    "Start": "steersman.stages.start",
    "Workflow": "steersman.stages.workflow",
    "doubling": "steersman.stages.rules",
    "every": "steersman.stages.rules",
    "audits": "steersman.steering",
    "budget": "steersman.steering",
    "compare": "steersman.analysis.comparison.calls",
    "run": "steersman.calls.run",
    "tune": "steersman.analysis.comparison.calls",
    "plateau": "steersman.steering",
    "reached": "steersman.steering",
}

__all__ = [
    "Out", "Params", "Run", "Start", "Workflow", "audits", "budget", "compare", "doubling", "every", "open_run",
    "plateau", "reached", "run", "tune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what a workflow file needs when it asks: `steersman.bus` alone brings nothing else with it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
