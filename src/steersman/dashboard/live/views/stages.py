"""A watched run -> its workflow as a graph: stages, their Parsl jobs with state and counts, and what made the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.executors.site import Site
from steersman.journal.lock import driven
from steersman.journal.state import State
from steersman.stages.kinds import STAGES
from steersman.stages.kinds.simulate import Simulate
from steersman.stages.kinds.stage import StageView
from steersman.stages.kinds.steer import Steer
from steersman.system import reading
from steersman.system.plain import flat

MOST_CODE = 100_000  # characters of the workflow file that are shown
MOST_CALLS = 100  # more are shown by the names of their tasks


def answer(watched: Watched) -> dict[str, Any]:
    """Stages in order of the loop, each with what it does now, its counts and its Parsl jobs."""
    state = watched.history.state
    alive = state.end is None and driven(watched.directory.path)
    there = {*state.run.stages, ""} if state.run.stages else {each.recorded for each in STAGES}
    loop = sorted((each for each in STAGES if each.recorded in there), key=lambda each: each is Steer)  # it closes it
    shown = [(each.kind, each.shown(state, alive=alive)) for each in loop]
    at = 1 + next((at for at, each in enumerate(loop) if each is Simulate), -1)
    shown.insert(at, ("store", StageView(counts={"frames": f"{state.frames:,}"})))
    return {
        "stages": [{"name": kind, **each._asdict()} for kind, each in shown if each],
        "tasks": graph(state),
        "settings": settings(watched),
    }


def settings(watched: Watched) -> dict[str, Any]:
    """Parameters, site, code and versions, as text; and what to type to go on."""
    versions, given = watched.directory.environment(), watched.history.settings()
    made_with = {
        **{key: each for key, each in given.items() if key not in ("workflow", "site", "params")},
        **versions.pop("packages", {}),
        **versions,
    }
    return {
        "params": watched.history.params_in_words,
        "site": site(watched.history),
        "code": reading.text(watched.directory.workflow, watched.directory.path)[:MOST_CODE],
        "made_with": {name: str(value) for name, value in made_with.items() if value is not None},
        "files": dict(watched.history.state.run.files),
        "commands": commands(watched),
    }


def site(history: History) -> dict[str, str]:
    """What is special about the run's site; what has its default value is left out."""
    usual = flat(Site(name="").model_dump(mode="json"))
    given = flat(history.settings().get("site") or {})
    return {key: str(value) for key, value in given.items() if value is not None and value != usual.get(key)}


def commands(watched: Watched) -> dict[str, str]:
    """What to type to go on, and what it does."""
    run, segments = watched.directory.path, watched.table
    name = segments.name(int(segments.descendants().argmax())) if len(segments) else "w0.0"
    return {
        f"steersman why {run} {name}": "where a segment started, which policy chose that, what was passed over",
        f"steersman status {run}": "how it stands with the run",
        f"steersman report {run}": "make report.html again",
        f"steersman export {run} --tables tables": "all tables, as CSV and Parquet",
        f"python -ic \"import steersman; run = steersman.open_run('{run}'); print(run)\"": "tables and frames",
    }


def graph(state: State) -> dict[str, Any]:
    """The nodes, each with its column (behind all that it needs) and how many calls stand how; edges by their indices.

    A node is a call, with its arguments, or all calls of a task where there are many.
    """
    calls, single = state.calls, len(state.calls) <= MOST_CALLS
    of = {key: key if single else call.called.task for key, call in calls.items()}
    column: dict[str, int] = {}  # calls are made after what they need
    for key, call in calls.items():
        column[key] = max((column[need] + 1 for need in call.called.needs if need in column), default=0)
    nodes: dict[str, dict[str, Any]] = {}
    for key, call in calls.items():
        facts = {"name": call.called.task, "words": call.called.words if single else "", "column": column[key]}
        node = nodes.setdefault(of[key], {**facts, "counts": Counter[str]()})
        node["counts"][call.standing(calls)] += 1
    at = {name: i for i, name in enumerate(nodes)}
    edges = {(at[of[need]], at[of[key]]) for key, call in calls.items() for need in call.called.needs if need in calls}
    return {"nodes": list(nodes.values()), "edges": sorted(edge for edge in edges if edge[0] != edge[1])}
