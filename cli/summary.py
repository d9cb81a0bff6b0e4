"""A run -> plain values."""

from __future__ import annotations

from typing import Any

from steersman.engine import files
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.journal.walkers import Model


def summary(directory: RunDirectory, state: State) -> dict[str, Any]:
    """A run in plain values."""
    return {
        "workflow": state.run.workflow,
        "outcome": state.end.outcome if state.end else "running",
        "reason": state.end.reason if state.end else None,
        "seed": state.run.seed,
        "guided": state.run.guided,
        "frames": state.frames,
        "simulated": state.simulated,
        "time_unit": state.time_unit,
        "hours": round(state.hours(state.now), 5),
        "segments": dict(state.ended),
        "walkers": len(state.walkers),
        "files": files.count(directory.path),
        "models": [_facts(model) for model in state.models],
        "paused_by": state.paused.who if state.paused else None,
        "metrics": {name: values[-1] for name, values in state.metrics.items()},
    }


def _facts(model: Model) -> dict[str, Any]:
    known = {name: getattr(model.fit, name, None) for name in ("loss", "held_out")}
    return {"version": model.version, "accepted": model.accepted, **known}
