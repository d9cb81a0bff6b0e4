"""A watched run -> what stands at the top of its page: is it working, in words and numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from textwrap import shorten
from typing import Any

import numpy as np

from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.facts import SILENT_S, count, missed, scores_of, without_scores
from steersman.data.history import History
from steersman.data.overview import SIMULATING, Overview
from steersman.journal import records
from steersman.journal.state import State

WINDOWS_H = (24.0, 1.0, 1 / 6, 1 / 60)  # over which a metric's rise is said: the longest that fits twice into the run
WORDS_H = {24.0: "day", 1.0: "hour", 1 / 6: "10 minutes", 1 / 60: "minute"}
MOST_NAMED = 3  # causes that a sentence names
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
        "sentences": list(sentences(history, overview)),
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


def sentences(history: History, overview: Overview) -> Iterator[str]:
    """The run in words."""
    state = history.state
    if overview.ended:
        yield f"{outcome(overview)}."
    elif overview.paused_by:
        yield f"{overview.paused_by} paused the run."
    if overview.models:  # else its workflow may train none
        yield _model(overview)
    for name in list(overview.metrics)[:MOST_NAMED]:
        yield _rise(name, history.metrics[name], overview.now, state, alive=overview.alive)
    if overview.waits_s > SILENT_S:
        yield f"Without scores: {without_scores(overview)}."
    if overview.alive:
        yield (
            _slots(overview.doing)
            if overview.doing or not overview.segments
            else "All workers have gone; the run is ending."
        )
    if failed := overview.segments.get("failed"):
        cause, times = Counter(history.causes.values()).most_common(1)[0] if history.causes else ("", 0)
        yield f"{count(failed, 'segment')} failed, {times:,} of them with: {_cut(cause, 120)}"
    yield from (f"The {name} stage {_cut(how, 200)}" for name, how in overview.failing.items())


def outcome(seen: Overview) -> str:
    """How a run ended, in words."""
    known = OUTCOMES.get(seen.outcome, "The run has ended: {}")
    return known.format(seen.reason) + missed(seen) if seen.ended else "The run has not ended yet"


def _cut(text: str, most: int) -> str:
    return shorten(text, most, placeholder=" ...")


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
        had none for long; and `models`, when each accepted one was there; `simulated_label`.
    """
    history, clock = watched.history, watched.clock

    def clocks(moments: np.ndarray) -> dict[str, list[float]]:
        hours = clock.elapsed(moments) / 3600
        simulated = clock.simulated(moments) / clock.simulated_scale.divisor
        gpu_hours = hours * history.state.run.gpus
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
        "gpus": history.state.run.gpus,
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


def _model(overview: Overview) -> str:
    if overview.training and overview.alive:
        now = f"model {overview.model} is in use" if overview.model else "none is in use yet"
        model, comma, epoch = overview.training.partition(",")
        return f"{model.capitalize()} is being trained{comma}{epoch}; {now}."
    if overview.model:
        refused = sum(model.accepted is False for model in overview.models)
        return (
            f"Model {overview.model} is in use"
            + (f"; {refused} other{'s were' if refused > 1 else ' was'} not good enough" if refused else "")
            + f"{scores_of(overview)}."
        )
    return f"No model was good enough{' yet' if overview.alive else ''}."


def _rise(name: str, values: np.ndarray, now: float, state: State, *, alive: bool) -> str:
    """How a metric changed. A new model may change it at once, for then it is a metric of other scores."""
    moments, figures = values.T
    last = float(figures[-1])
    window = next((hours for hours in WINDOWS_H if 2 * 3600 * hours <= now - moments[0]), None)
    if window is None:
        return f"{name} is {last:.4g}."
    the, ago = ("the", "ago") if alive else ("its", "before")
    since = max(0, int(np.searchsorted(moments, now - 3600 * window)) - 1)
    before = float(figures[since])
    if before == last or not np.isfinite([before, last]).all():
        return f"{name} is {last:.4g}, as it was a{'n' if window == 1 else ''} {WORDS_H[window]} {ago}."
    change = (
        f"{abs(last / before - 1):.1%}".replace(".0%", "%").replace("%", " %")
        if before > 0
        else f"{abs(last - before):.3g}"
    )
    came = any(model.accepted and model.fit and model.fit.t > moments[since] for model in state.models)
    how = f"{'rose' if last > before else 'fell'} by {change} in {the} last {WORDS_H[window]}"
    return f"{name} is {last:.4g}: it {how}{', in which the model changed' if came else ''}."


def _slots(doing: Mapping[str, int]) -> str:
    slots, busy = sum(doing.values()), doing.get(SIMULATING, 0)
    if not slots:
        return "No slot has a worker yet."
    if busy == slots:
        return f"All {slots} slots simulate." if slots > 1 else "The slot simulates."
    causes = sorted(((n, what) for what, n in doing.items() if n and what != SIMULATING), reverse=True)[:MOST_NAMED]
    if slots == 1:
        return f"The slot {causes[0][1]}."
    return (
        f"{slots - busy} of {slots} slots are idle: " + ", ".join(f"{n} {_plural(what, n)}" for n, what in causes) + "."
    )


def _plural(what: str, n: int) -> str:
    verb, _, rest = what.partition(" ")
    many = {"waits": "wait", "starts": "start", "is": "are"}[verb] if n > 1 else verb
    return f"{many} {rest}".rstrip()


def _decision(state: State, start: records.Start) -> dict[str, Any]:
    said = {"policy": start.policy, "reason": start.reason, "origin": state.origin(start)}
    return {"t": start.t, "start": start.start, **said}
