"""A watched run -> what stands at the top of its page: is it working, in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from steersman.dashboard import tables
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.journal import copies, records
from steersman.journal.facts import outcome
from steersman.journal.history import History
from steersman.journal.lock import driven, owner
from steersman.journal.slot_time import shares
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.steering.protocols import AnyOf, StopRule
from steersman.steering.stop import Budget

WINDOWS_H = (24.0, 1.0, 1 / 6, 1 / 60)  # over which a metric's rise is said: the longest that fits twice into the run
WORDS_H = {24.0: "day", 1.0: "hour", 1 / 6: "10 minutes", 1 / 60: "minute"}
MOST_NAMED = 3  # causes that a sentence names
NO_BLOCK, STARTING, PAUSED, WAITING, SIMULATING = (
    "waits for a worker", "starts", "is paused", "waits for a start", "simulates",
)  # fmt: skip


def state(watched: Watched, now: float) -> dict[str, Any]:
    """The run at this moment, in plain values; small, whatever the run's size.

    Args:
        now: seconds since 1970.
    """
    history, state = watched.history, watched.history.state
    alive = state.end is None and driven(watched.directory.path)
    moment = now if alive else state.now
    rule, origin = watched.stop_rule(), copies.of(watched.directory.path)
    return {
        "change": watched.change,
        "name": watched.directory.path.name,
        "path": str(watched.directory.path.resolve()),
        "copy": f"a copy of {origin}" if origin else "",
        "workflow": state.run.workflow,
        "guided": state.run.guided,
        "seed": state.run.seed,
        "trusted": watched.trusted,
        **_status(watched, alive),
        "sentences": list(sentences(history, alive, moment)),
        "began": state.run.t,
        "now": moment,
        "facts": facts(watched, moment),
        "budget": budget(state, rule, moment),
        "doing": doing(state) if alive else {},
        "shares": shares(state, moment),
        "nodes": nodes(state) if alive else [],
        "metrics": {name: values[-1] for name, values in state.metrics.items()},
        "policies": history.policies,
        "model": state.model,
        "models": len(state.models),
        "scored": [state.scored_with, state.scored],
        "failures": len(history.causes),
        "flaws": [str(flaw) for flaw in history.flaws[:5]],
        "notes": [{"t": note.t, "text": records.words(note)} for note in list(state.notes)[::-1]],
        "decisions": [_decision(state, start) for start in list(state.decisions)[::-1]],
        "running": sorted(segment.name for segment in state.running)[:200] if alive else [],
        "stages": {name: stage.cause for name, stage in state.stages.items() if stage.failures},
        "params": {name: str(value) for name, value in history.params.items()},
        "unit": state.time_unit,
    }


def facts(watched: Watched, now: float) -> dict[str, Any]:
    """What was done: counts, simulated time in the unit of `simulated_unit`, hours."""
    state, scale = watched.history.state, watched.clock.simulated_scale
    hours = state.hours(now)
    return {
        "frames": state.frames,
        "simulated": state.simulated / scale.divisor,
        "simulated_unit": scale.unit,
        "hours": hours,
        "gpu_hours": hours * state.run.gpus,
        "segments": dict(state.ended),
        "slots": state.slots,
        "starts": state.next_start,
    }


def budget(state: State, rule: StopRule | None, now: float) -> dict[str, Any]:
    """What ends the run, how far it is, and the seconds left at the rate so far (None: not known)."""
    if rule is None:
        return {"rule": "", "share": None, "left_s": None, "parts": []}
    progress = state.progress(now)
    share, spent_s = rule.share(progress), 3600 * state.hours(now)
    left = spent_s * (1 - share) / share if share >= 0.01 and state.end is None else None
    rules = rule.rules if isinstance(rule, AnyOf) else (rule,)
    parts = [
        {"rule": str(each), "share": each.share(progress), "goal": each.goal, "met": each.reason(progress) or ""}
        for each in rules
    ]
    return {"rule": str(rule), "share": share, "left_s": left, "parts": parts, "spends": isinstance(rule, Budget)}


def doing(state: State) -> dict[str, int]:
    """How many slots do what, at this moment."""
    return dict(Counter(_doing(state, walker) for walker in state.walkers.values() if walker.alive))


def nodes(state: State) -> list[dict[str, Any]]:
    """Nodes (or what is not there yet), their walkers, how many of them simulate, and when their block ends."""
    found: dict[str, dict[str, Any]] = {}
    for walker in state.walkers.values():
        if walker.alive:
            name = walker.node or "not there yet"
            node = found.setdefault(name, {"node": name, "walkers": 0, "busy": 0, "ends": walker.block_ends})
            node["walkers"] += 1
            node["busy"] += walker.running is not None
            node["aside"] = walker.node in state.aside
    return sorted(found.values(), key=lambda node: str(node["node"]))


def sentences(history: History, alive: bool, now: float) -> Iterator[str]:
    """The run in words."""
    state = history.state
    if state.end is not None:
        yield f"{tables.outcome(state.end)}."
    elif state.paused:
        yield f"{state.paused.who} paused the run."
    yield _model(state, alive)
    for name, values in list(history.metrics.items())[:MOST_NAMED]:
        yield _rise(name, values, now, state)
    if alive:
        yield _slots(state)
    if failed := state.ended["failed"]:
        cause, times = Counter(history.causes.values()).most_common(1)[0] if history.causes else ("", 0)
        yield f"{failed:,} segment{'s' if failed > 1 else ''} failed, {times:,} of them with: {cause:.120}"
    for name, stage in state.stages.items():
        if stage.failures:
            often = f" ({stage.failures:,} times)" if stage.failures > 1 else ""
            yield f"The {name} stage fails{often}: {stage.cause:.160}"


def walkers(watched: Watched) -> bytes:
    """When the walker of each slot was asked for, came and went (0: not yet), packed; seconds since the run began.

    `meta` has the trainings: version, begin, end (null: it goes on) and whether the model is used.
    """
    state = watched.history.state
    began, every = state.run.t or state.now, list(state.walkers.values())
    came = watched.came()
    times = {
        "hired": [each.started for each in every],
        "came": [came.get(each.number, 0.0) for each in every],
        "gone": [each.gone or 0.0 for each in every],
    }
    columns = {
        name: np.where(np.array(values) > 0, np.array(values) - began, 0).astype(np.float32)
        for name, values in times.items()
    }
    trainings = [
        [model.version, model.at - began, model.fit.t - began if model.fit else None, model.accepted]
        for model in state.models
    ]
    return packed({"trainings": trainings}, slot=np.array([each.slot for each in every], np.int32), **columns)


def metrics(watched: Watched, most: int = 2000) -> dict[str, Any]:
    """Each metric's values with three clocks: hours, GPU hours and simulated time in the unit of the axis.

    Returns: name -> hours, gpu_hours, simulated, value: lists of at most `most` numbers; and `models`, when each
        accepted one was there; `simulated_label`.
    """
    history, clock = watched.history, watched.clock

    def clocks(moments: np.ndarray) -> dict[str, list[float]]:
        hours = clock.elapsed(moments) / 3600
        simulated = clock.simulated(moments) / clock.simulated_scale.divisor
        gpu_hours = hours * history.state.run.gpus
        return {"hours": hours.tolist(), "gpu_hours": gpu_hours.tolist(), "simulated": simulated.tolist()}

    series = {}
    for name, values in history.metrics.items():
        shown = values[_spread(len(values), most)]
        series[name] = {**clocks(shown[:, 0]), "value": [None if np.isnan(v) else v for v in shown[:, 1].tolist()]}
    accepted = [model for model in history.state.models if model.accepted and model.fit]
    when = clocks(np.array([model.fit.t for model in accepted if model.fit]))
    return {
        "series": series,
        "models": {**when, "version": [model.version for model in accepted]},
        "simulated_label": clock.simulated_scale.label if clock.counts_simulated else "",
        "gpus": history.state.run.gpus,
    }


def _spread(n: int, most: int) -> np.ndarray:
    """Positions of at most `most` of n, spread evenly, the last one among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)) if n else np.empty(0, int)


def _status(watched: Watched, alive: bool) -> dict[str, Any]:
    state, holder = watched.history.state, owner(watched.directory.path)
    driver = "" if state.end else str(holder or "") if alive else holder.why_gone if holder else "it has no driver"
    return {"status": outcome(state, watched.directory.path), "ended": state.end is not None, "driver": driver}


def _model(state: State, alive: bool) -> str:
    training = state.training
    if training is not None and alive:
        epoch = training.epoch
        far = f", epoch {epoch.epoch} of {epoch.epochs}" if epoch else ""
        now = f"model {state.model} is in use" if state.model else "none is in use yet"
        return f"Model {training.version} is being trained{far}; {now}."
    if state.model:
        refused = sum(model.accepted is False for model in state.models)
        return f"Model {state.model} is in use" + (
            f"; {refused} {'were' if refused > 1 else 'was'} not good enough." if refused else "."
        )
    return "No model was good enough yet." if state.models else "There is no model yet."


def _rise(name: str, values: np.ndarray, now: float, state: State) -> str:
    """How a metric changed. A new model may change it at once, for then it is a metric of other scores."""
    moments, figures = values.T
    last = float(figures[-1])
    window = next((hours for hours in WINDOWS_H if 2 * 3600 * hours <= now - moments[0]), None)
    if window is None:
        return f"{name} is {last:.4g}."
    since = max(0, int(np.searchsorted(moments, now - 3600 * window)) - 1)
    before = float(figures[since])
    if before == last or not np.isfinite([before, last]).all():
        return f"{name} is {last:.4g}, as it was a{'n' if window == 1 else ''} {WORDS_H[window]} ago."
    change = (
        f"{abs(last / before - 1):.1%}".replace(".0%", "%").replace("%", " %")
        if before > 0
        else f"{abs(last - before):.3g}"
    )
    came = any(model.accepted and model.fit and model.fit.t > moments[since] for model in state.models)
    how = f"{'rose' if last > before else 'fell'} by {change} in the last {WORDS_H[window]}"
    return f"{name} is {last:.4g}: it {how}{', in which the model changed' if came else ''}."


def _slots(state: State) -> str:
    found = doing(state)
    slots, busy = sum(found.values()), found.get(SIMULATING, 0)
    if not slots:
        return "No slot has a worker yet."
    if busy == slots:
        return f"All {slots} slots simulate."
    causes = sorted(((n, what) for what, n in found.items() if what != SIMULATING), reverse=True)[:MOST_NAMED]
    return (
        f"{slots - busy} of {slots} slots are idle: " + ", ".join(f"{n} {_plural(what, n)}" for n, what in causes) + "."
    )


def _plural(what: str, n: int) -> str:
    verb, _, rest = what.partition(" ")
    many = {"waits": "wait", "starts": "start", "is": "are"}[verb] if n > 1 else verb
    return f"{many} {rest}".rstrip()


def _doing(state: State, walker: Walker) -> str:
    if walker.running is not None:
        return SIMULATING
    if not walker.has_come:
        return NO_BLOCK
    if state.paused:
        return PAUSED
    return WAITING if walker.segments else STARTING


def _decision(state: State, start: records.Start) -> dict[str, Any]:
    said = {"policy": start.policy, "reason": start.reason, "origin": state.origin(start)}
    return {"t": start.t, "start": start.start, **said}
