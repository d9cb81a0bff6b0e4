"""Overview -> the run in words, as `status` and `open_run` show it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from textwrap import shorten

from steersman.data.clock import simulated_scale
from steersman.data.overview import Overview
from steersman.data.slot_time import SIMULATING

SILENT_S = 60.0  # without a frame, after which it is said
CAUSE_CHARS = 300  # of a failure, which may quote what a program printed


def facts(seen: Overview) -> dict[str, str]:
    """What there is to know at a glance."""
    none_used = seen.models and not seen.model and (seen.ended or not seen.training)
    lines = {
        "frames": f"{seen.frames:,} ({simulated(seen)})",
        "wall time": clock(3600 * seen.hours),
        "segments": ", ".join(f"{number:,} {how}" for how, number in seen.segments.items()) or "none",
        **({"starts": _chosen(seen)} if seen.starts else {}),
        **({"tasks": ", ".join(f"{n:,} {standing}" for standing, n in seen.tasks.items())} if seen.tasks else {}),
        **{name: ", ".join(f"{n:,} {how}" for how, n in of.items()) for name, of in seen.counts.items()},
        **({"models": _accepted(seen)} if seen.models else {}),
        **({"no model": "none was done in time"} if none_used and not seen.models[-1].reason else {}),
        **{name: f"version {n} is in use" for name, n in seen.versions.items() if n and name != "model"},
        **({"training": seen.training} if seen.training and seen.alive else {}),
        **({"slots": ", ".join(f"{what}: {n:,}" for what, n in seen.doing.items())} if seen.doing else {}),
        "slots idle": _idle(seen),
    }
    if seen.blind:
        lines["they begin"] = "at the prepared start, whatever is chosen: none looks at start.frame or leaves a state"
    if seen.silent_s > SILENT_S:
        lines["no frame"] = f"for {clock(seen.silent_s)}, of a segment that runs"
    if seen.waits_s > SILENT_S:
        since = clock(3600 * seen.hours - seen.waits_s)
        lines["without scores"] = f"{count(seen.waiting, 'frame')} of {seen.frames:,}, since {since} of the run"
    if seen.starting:
        lines["walkers"] = seen.starting
    if seen.failing:
        lines["fails"] = "; ".join(f"the {name} stage {how}" for name, how in seen.failing.items())
    cause = seen.last_cause
    if cause and not any(cause in told for told in (seen.last_note, seen.reason or "")):
        lines["last failure"] = f"{_short(cause)} (see errors/)"
    if seen.last_note:
        lines["last note"] = seen.last_note
    if seen.flaws:
        lines["journal"] = f"{seen.flaws[0]}; what it said is left out: see `steersman verify`"
    if seen.guided:
        lines["guided"] = "by a known reference"
    return lines | {name: f"{value:.4g}" for name, value in apart(seen.metrics, lines).items()}


def apart(metrics: Mapping[str, float], others: Collection[str]) -> dict[str, float]:
    """Metrics, of which one that is named like another thing says that it is a metric."""
    return {f"metric {name}" if name in others else name: value for name, value in metrics.items()}


def percent(share: float) -> str:
    """`62 %`; what is there at all is never 0 %, and 100 % is all."""
    return "<1 %" if 0 < share <= 0.005 else ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def digits(*values: float) -> int:
    """How many significant digits tell numbers apart, 3 at least."""
    finite = [value for value in values if math.isfinite(value)]
    spread = max(finite) - min(finite) if finite else 0.0
    return min(max(3, math.ceil(math.log10(max(map(abs, finite)) / spread)) + 1), 9) if spread else 3


def count(number: int, what: str) -> str:
    """A number of things: 1 frame, 2,000 frames."""
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def simulated(seen: Overview) -> str:
    return f"{simulated_scale(seen.simulated, seen.time_unit).text(seen.simulated)} simulated"


def missed(seen: Overview) -> str:
    """Of a run that spent its budget: the goals that it did not reach, or ""; they are known where its file is read."""
    if seen.outcome != "budget":
        return ""
    return "".join(f"; it missed its goal: {part.rule}" for part in seen.budget.parts if part.goal and not part.met)


def _short(cause: str) -> str:
    return shorten(cause, CAUSE_CHARS, placeholder=" ...")


def _accepted(seen: Overview) -> str:
    """`1 accepted of 2; model 2 was not: its scores z are not a number`, or taken unjudged, and whose scores steer."""
    judged = [model for model in seen.models if model.accepted is not None]
    newest = judged[-1] if judged else None
    why = ""
    if newest and (not newest.accepted or newest.held_out is None):
        how = "taken unjudged" if newest.accepted else "not"
        none_judged = len(judged) > 1 and all(model.accepted and model.held_out is None for model in judged)
        why = f"; {'each' if none_judged else f'model {newest.version}'} was {how}: {_short(newest.reason)}"
    # Where there are no scores of the model in use, yet or because they failed.
    scores = f"; the scores are of model {seen.scored_with}" if seen.scored_with not in (0, seen.model) else ""
    return f"{sum(bool(model.accepted) for model in judged)} accepted of {len(seen.models)}{why}{scores}"


def _chosen(seen: Overview) -> str:
    """`Novelty 62 %, Unsteered 38 %`: who chose the starts."""
    total, most = sum(seen.starts.values()), sorted(seen.starts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {percent(number / total)}" for name, number in most)


def _idle(seen: Overview) -> str:
    """`2.1 %, most of it waiting for a start`: what slots did that did not simulate."""
    if not seen.shares:
        return "-"
    rest = {cause: share for cause, share in seen.shares.items() if cause != SIMULATING}
    idle, most = sum(rest.values()), max(rest, key=lambda cause: rest[cause])
    how = "most of it" if 2 * rest[most] > idle else "chiefly"
    return f"{100 * idle:.1f} %" + (f", {how} {most}" if rest[most] else "")
