"""State -> the run in words, as `status` shows it, and in plain values, as `--json` and `open_run` give it."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Any

from steersman.data.clock import simulated_scale
from steersman.data.slot_time import SIMULATING, shares
from steersman.journal import calls
from steersman.journal.lock import driven
from steersman.journal.records import Stage, words
from steersman.journal.state import State
from steersman.journal.walkers import ModelVersion

CAUSE_CHARS = 300  # of a failure, which may quote what a program printed


def facts(state: State, now: float) -> dict[str, str]:
    """What there is to know at a glance; `now` in seconds since 1970, that of the last record where nobody drives."""
    none_used = state.models and not state.model and (state.end is not None or state.training is None)
    found = {
        "frames": f"{state.frames:,} ({simulated(state)})",
        "wall time": clock(3600 * state.hours(now)),
        "segments": ", ".join(f"{number} {how}" for how, number in state.ended.items()) or "none",
        **({"starts": _chosen(state)} if state.chosen else {}),
        **({"tasks": calls.counted(state.calls)} if state.calls else {}),
        **({"models": _accepted(state)} if state.models else {}),
        **({"no model": state.models[-1].reason or "none was done in time"} if none_used else {}),
        **{name: f"{values[-1]:.4g}" for name, values in state.metrics.items()},
        "slots idle": _idle(state, now),
    }
    if lacking := starting(state):
        found["walkers"] = lacking
    if broken := failing(state):
        found["fails"] = "; ".join(broken)
    note, cause = _last_note(state), state.last_cause
    if cause and not any(cause in told for told in (note, state.end.reason if state.end else "")):
        found["last failure"] = f"{_short(cause)} (see errors/)"
    if note:
        found["last note"] = note
    if state.run.guided:
        found["guided"] = "by a known reference"
    return found


def outcome(state: State, path: Path) -> str:
    """How a run ended; running or paused; or "not driven", where it can be resumed."""
    if state.end is not None:
        return state.end.outcome
    if not driven(path):
        return "not driven"
    return "paused" if state.paused else "running"


def summary(state: State, path: Path) -> dict[str, Any]:
    """The run of a directory in plain values; `simulated` is in `time_unit`."""
    return {
        "workflow": state.run.workflow,
        "outcome": outcome(state, path),
        "reason": state.end.reason if state.end else None,
        "seed": state.run.seed,
        "guided": state.run.guided,
        "frames": state.frames,
        "simulated": state.simulated,
        "time_unit": state.time_unit,
        "hours": round(state.hours(state.now), 5),
        "segments": dict(state.ended),
        "starts": dict(state.chosen),
        "walkers": len(state.walkers),
        "tasks": {standing: number for standing, number in calls.counts(state.calls).items() if number},
        "models": [_fit(model) for model in state.models],
        "paused_by": state.paused.who if state.paused else None,
        "metrics": {name: values[-1] for name, values in state.metrics.items()},
    }


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def simulated(state: State) -> str:
    return f"{simulated_scale(state.simulated, state.time_unit).text(state.simulated)} simulated"


def starting(state: State) -> str:
    """`1 of 4 have started`, while not all walkers of this session have, or ""."""
    if state.end or not state.sessions:
        return ""
    hired = state.hired
    here = [walker for walker in hired if walker.alive]
    come, of = sum(walker.has_come for walker in here), len(here) if hired else state.run.slots
    return f"{come:,} of {of:,} have started" if come < of else ""


def failing(state: State) -> list[str]:
    """Stages of the workflow that fail, with the cause of the last failure."""
    return [
        f"the {name} stage "
        + ("fails" if stage.worked else "has never worked")
        + (f" ({stage.failures:,} times)" if stage.failures > 1 else "")
        + f": {stage.cause}"
        for name, stage in state.stages.items()
        if stage.failures
    ]


def _last_note(state: State) -> str:
    """The newest; "" if it has the cause that a line beside it tells: of a stage that fails, or of the end."""
    if not state.notes:
        return ""
    note, cause = state.notes[-1], state.last_cause
    if isinstance(note, Stage):
        return "" if state.stages[note.stage].failures else words(note)
    told = state.end is not None and bool(cause) and cause in state.end.reason
    return "" if told and cause in words(note) else words(note)


def _short(cause: str) -> str:
    return shorten(cause, CAUSE_CHARS, placeholder=" ...")


def _fit(model: ModelVersion) -> dict[str, Any]:
    known = {name: getattr(model.fit, name, None) for name in ("loss", "held_out")}
    return {"version": model.version, "accepted": model.accepted, **known}


def _accepted(state: State) -> str:
    """`1 accepted of 2; model 2 was not: its scores z are not a number`."""
    judged = [model for model in state.models if model.accepted is not None]
    newest = judged[-1] if judged else None
    why = f"; model {newest.version} was not: {_short(newest.reason)}" if newest and not newest.accepted else ""
    return f"{sum(bool(model.accepted) for model in judged)} accepted of {len(state.models)}{why}"


def _chosen(state: State) -> str:
    """`Novelty 62 %, Unsteered 38 %`: who chose the starts."""
    total = state.chosen.total()
    return ", ".join(f"{name} {100 * number / total:.0f} %" for name, number in state.chosen.most_common())


def _idle(state: State, now: float) -> str:
    """`2.1 %, most of it waiting for a start`: what slots did that did not simulate."""
    found = shares(state, now)
    if not found:
        return "-"
    rest = {cause: share for cause, share in found.items() if cause != SIMULATING}
    idle, most = sum(rest.values()), max(rest, key=lambda cause: rest[cause])
    return f"{100 * idle:.1f} %" + (f", most of it {most}" if rest[most] else "")
