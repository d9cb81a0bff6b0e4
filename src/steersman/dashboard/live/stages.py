"""A watched run -> its workflow as a graph: stages, their Parsl jobs with state and counts, and what made the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from steersman.dashboard import tables
from steersman.dashboard.live import task_graph
from steersman.dashboard.live.watched import Watched
from steersman.journal.lock import driven
from steersman.journal.state import State
from steersman.system import reading

MOST_CODE = 100_000  # characters of the workflow file that are shown


def graph(watched: Watched) -> dict[str, Any]:
    """Stages in order of the loop, each with what it does now, its counts and its Parsl jobs."""
    state = watched.history.state
    alive = state.end is None and driven(watched.directory.path)
    stages = [
        _prepare(state),
        _simulate(state, alive),
        _store(state),
        _train(state, alive),
        _score(state),
        _steer(state),
    ]
    there = {*state.run.stages, "store", "steer"}
    return {
        "stages": [stage for stage in stages if not state.run.stages or stage["name"] in there],
        "tasks": task_graph.graph(state),
        "settings": settings(watched),
    }


def settings(watched: Watched) -> dict[str, Any]:
    """Parameters, site, code and versions, as text."""
    versions = watched.directory.environment()
    packages = versions.pop("packages", {})
    return {
        "params": watched.history.params_in_words,
        "site": tables.site(watched.history),
        "code": reading.text(watched.directory.workflow, watched.directory.path)[:MOST_CODE],
        "made_with": {name: str(value) for name, value in {**versions, **packages}.items() if value is not None},
        "files": dict(watched.history.state.run.files),
    }


def _prepare(state: State) -> dict[str, Any]:
    done = bool(state.prepared) or bool(state.starts) or state.next_start > 0
    return _stage("prepare", "done" if done else "waits", {"sha256": state.prepared[:12]} if state.prepared else {}, {})


def _simulate(state: State, alive: bool) -> dict[str, Any]:
    walkers = list(state.walkers.values())
    jobs = Counter(
        ("at work" if walker.has_come else "waits in the queue") if walker.alive and alive
        else "stopped" if walker.alive else "went home"
        for walker in walkers
    )  # fmt: skip
    lost = sum(walker.was_lost for walker in walkers)
    if lost:
        jobs["lost"] = lost
        jobs["went home"] -= lost
    busy = sum(walker.running is not None for walker in walkers if walker.alive) if alive else 0
    counts = {"segments": f"{state.ended.total():,}", **{how: f"{n:,}" for how, n in state.ended.items()}}
    return _stage("simulate", f"{busy:,} run" if busy else "idle", counts, {k: n for k, n in jobs.items() if n > 0})


def _store(state: State) -> dict[str, Any]:
    return _stage("store", "", {"frames": f"{state.frames:,}"}, {})


def _train(state: State, alive: bool) -> dict[str, Any]:
    if not state.models:
        return _stage("train", "has not run", {}, {})
    verdicts = Counter(
        {True: "used", False: "not used", None: "running" if alive else "not finished"}[m.accepted]
        for m in state.models
    )
    epoch = state.training.epoch if state.training and alive else None
    now = f"epoch {epoch.epoch} of {epoch.epochs}" if epoch else "runs" if state.training and alive else "idle"
    return _stage("train", now, {"models": str(len(state.models))}, dict(verdicts))


def _score(state: State) -> dict[str, Any]:
    by = f"under model {state.scored_with}" if state.scored_with else ""
    counts = {"frames": f"{state.scored:,}", "seconds": f"{state.scoring_s:,.3g}"} if state.scored else {}
    return _stage("score", by or ("has not run" if not state.scored else ""), counts, {})


def _steer(state: State) -> dict[str, Any]:
    waiting = state.waiting_starts
    how = "were not begun" if state.end else "wait"
    return _stage("steer", f"{waiting:,} starts {how}" if waiting else "", {"starts": f"{state.chosen.total():,}"}, {})


def _stage(name: str, now: str, counts: dict[str, str], jobs: dict[str, int]) -> dict[str, Any]:
    return {"name": name, "now": now, "counts": counts, "jobs": jobs}
