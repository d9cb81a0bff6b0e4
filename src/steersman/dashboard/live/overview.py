"""A watched run -> what stands at the top of its page: is it working, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.facts import facts as in_words
from steersman.data.facts import missed
from steersman.data.overview import Overview
from steersman.journal import records
from steersman.journal.state import State

SHOWN = {"frames", "wall time", "segments", "starts", "last note", "journal"}  # of the facts of `status`
OUTCOMES = {
    "goal": "The run reached its goal: {}", "budget": "The run spent its budget: {}", "failed": "The run failed: {}",
    "interrupted": "The run was interrupted: {}", "finished": "The run was told to finish {}",
}  # fmt: skip
GAP_S, GAP_STEPS = 60.0, 20  # a metric without a value for so long, and so many of its usual steps, has a gap


def seen(watched: Watched, now: float) -> Overview:
    """The run at this moment, in seconds since 1970, with what ends it."""
    return watched.history.overview(watched.stop_rule(), now)


def state(watched: Watched, now: float) -> dict[str, Any]:
    """The run at this moment in plain values, small, whatever the run's size: its overview, and what the page adds."""
    history, state, overview = watched.history, watched.history.state, seen(watched, now)
    plain = overview.as_plain()
    del plain["models"]  # there may be thousands
    return plain | {
        "change": watched.change,
        "trusted": watched.trusted,
        "status": overview.outcome,
        "ended": overview.ended,
        "sentences": list(sentences(overview)),
        "facts": facts(watched, overview),
        "policies": history.policies,
        "trained": len(state.models),
        "failures": len(history.causes),
        "notes": plain["notes"][::-1],
        "decisions": [_decision(state, start) for start in list(state.decisions)[::-1]],
        "running": sorted(segment.name for segment in state.running)[:200] if overview.alive else [],
        "params": {name: str(value) for name, value in history.params.items()},
    }


def facts(watched: Watched, overview: Overview) -> dict[str, Any]:
    """What the page counts, with simulated time in the unit of its axes."""
    scale = watched.clock.simulated_scale
    counts = {key: getattr(overview, key) for key in ("frames", "hours", "gpu_hours", "segments", "slots")}
    starts = watched.history.state.chosen.total()
    return {**counts, "simulated": overview.simulated / scale.divisor, "simulated_unit": scale.unit, "starts": starts}


def sentences(seen: Overview) -> Iterator[str]:
    """What `status` says, but for what the page shows beside it or below."""
    if seen.ended:
        yield f"{outcome(seen)}."
    elif seen.paused_by:
        yield f"{seen.paused_by} paused the run."
    for name, words in in_words(seen).items():
        if name not in SHOWN and name not in seen.metrics:
            yield f"{name.capitalize()}: {words}."


def outcome(seen: Overview) -> str:
    """How a run ended, in words."""
    known = OUTCOMES.get(seen.outcome, "The run has ended: {}")
    return known.format(seen.reason) + missed(seen) if seen.ended else "The run has not ended yet"


def walkers(watched: Watched) -> bytes:
    """When the walker of each slot was asked for, came and went (0: not yet), packed; seconds of `WallTime`.

    `meta` has the trainings: version, begin, end (null: it goes on) and whether the model is used; and the pauses:
    begin, end (null: it goes on).
    """
    state = watched.history.state
    elapsed, every = watched.history.wall_time.elapsed, list(state.walkers.values())
    came = watched.came()
    times = {
        "hired": [each.started for each in every],
        "came": [came.get(each.number, 0.0) for each in every],
        "gone": [watched.history.gone(each.number) if each.gone else 0.0 for each in every],
    }
    columns = {
        name: np.where(np.array(values) > 0, elapsed(values), 0).astype(np.float32) for name, values in times.items()
    }
    trainings = [
        [model.version, float(elapsed(model.at)), float(elapsed(model.fit.t)) if model.fit else None, model.accepted]
        for model in state.models
    ]
    pauses = [[float(elapsed(at)) if at < math.inf else None for at in pause] for pause in state.wishes.pauses]
    return packed(
        {"trainings": trainings, "pauses": pauses}, slot=np.array([each.slot for each in every], np.int32), **columns
    )


def metrics(watched: Watched, most: int = 2000) -> dict[str, Any]:
    """Each metric's values with three clocks: hours, GPU hours and simulated time in the unit of the axis.

    Returns: name -> hours, gpu_hours, simulated, value: lists of at most `most` numbers, with a value of None where it
        had none for long; and `models`, when each accepted one was there; `simulated_label`, and `simulated_size`, see
        `Scale.size`, by which runs are drawn side by side.
    """
    history, clock = watched.history, watched.clock
    by_session = history.state.clocks(history.state.now)

    def clocks(moments: np.ndarray) -> dict[str, list[float]]:
        hours = clock.elapsed(moments) / 3600
        simulated = clock.simulated(moments) / clock.simulated_scale.divisor
        gpu_hours = np.interp(hours, *by_session)
        return {"hours": hours.tolist(), "gpu_hours": gpu_hours.tolist(), "simulated": simulated.tolist()}

    series = {}
    for name, values in history.metrics.items():
        shown = _with_gaps(values[_spread(len(values), most)], clock.elapsed)
        series[name] = {**clocks(shown[:, 0]), "value": [None if np.isnan(v) else v for v in shown[:, 1].tolist()]}
    accepted = [model for model in history.state.models if model.accepted and model.fit]
    when = clocks(np.array([model.fit.t for model in accepted if model.fit]))
    return {
        "series": series,
        "models": {**when, "version": [model.version for model in accepted]},
        "simulated_label": clock.simulated_scale.label if clock.counts_simulated else "",
        "simulated_size": clock.simulated_scale.size,
        "gpus": bool(by_session[1, -1]),
    }


def _with_gaps(values: np.ndarray, elapsed: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(n, 2) moments and values, with a NaN in each gap, so that no line is drawn over it."""
    steps = np.diff(elapsed(values[:, 0]))
    if not len(steps):
        return values
    gaps = np.flatnonzero(steps > max(GAP_S, GAP_STEPS * float(np.median(steps)))) + 1
    return np.insert(values, gaps, np.stack([values[gaps - 1, 0], np.full(len(gaps), np.nan)], axis=1), axis=0)


def _spread(n: int, most: int) -> np.ndarray:
    """Positions of at most `most` of n, spread evenly, the last one among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)) if n else np.empty(0, int)


def _decision(state: State, start: records.Start) -> dict[str, Any]:
    said = {"policy": start.policy, "reason": start.reason, "origin": state.origin(start)}
    return {"t": start.t, "start": start.start, **said}
