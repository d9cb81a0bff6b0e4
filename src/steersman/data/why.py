"""History and decisions -> why a segment was run: its start, model, reason, refused alternatives, and its end."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.data.facts import count
from steersman.data.history import History
from steersman.journal import decisions, records
from steersman.journal.given import Given
from steersman.journal.lock import driven
from steersman.journal.modes import MODES
from steersman.journal.records import FrameId
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.steering.opes import HOT
from steersman.store import Span
from steersman.store.names import FrameName, SegmentName, walker_name
from steersman.system import reading
from steersman.system.errors import EngineError

BLIND = "but segments do not look at start.frame, nor leave a state: they begin at the prepared start"


def why(history: History, name: str) -> dict[str, Any]:
    """Say where a segment came from and how it ended.

    Args:
        name: `<walker>.<number>`, e.g. "w3.17".
    Returns: segment, start, seed, began, parent (segment, row, name; or None), model, policy, reason, draw, with_model,
        bias (versions that the simulation was given, 0: none), share (of the energy of the bias), attempt,
        candidates, refused (others that were ranked high), repeats (bit for bit), ended, frames, hot (of these, at
        another temperature), cause, stopped_by; times in s since 1970.
    Raises: UnknownName: the journal does not know it.
    """
    segments = history.segments
    at, asked = segments.find(name), FrameName.parse(name)
    of, frame = SegmentName(int(segments.walker[at]), int(segments.number[at])), asked.frame if asked else None
    name = segments.name(at)
    start = history.start(int(segments.start[at]))
    decision = decisions.find(history.directory, _choice(history, start))
    if decision and (decision.policy, decision.frame) != (start.policy, start.parent):  # it goes on where that was cut
        decision = None
    stopped = history.stops.get(name)
    how = str(segments.how[at])
    if how == "running" and history.state.end is None and not driven(history.directory.path):
        how = "unknown: it was running when its driver was lost"
    return {
        "segment": name,
        "start": _choice(history, start),
        "seed": start.seed,
        "began": float(segments.began[at]),
        "parent": _parent(history, start),
        "model": start.model,
        "policy": start.policy,
        "reason": start.reason + (f"; {BLIND}" if history.state.blind and start.parent else ""),
        "draw": dict(start.draw),
        "condition": dict(start.condition),
        **start.given._asdict(),
        "attempt": start.attempt,
        "candidates": decision.candidates if decision else 0,
        "refused": [
            {"frame": _named(history, each.frame), "policy": each.policy, "reason": each.reason}
            for each in (decision.refused if decision else ())
        ],
        "repeats": bool(segments.repeats[at]),
        "ended": how,
        "frames": None if segments.how[at] == "running" else _rows(history, at),
        "hot": _hot(history, at),
        "cause": history.causes.get(name),
        "stopped_by": _stopped_by(stopped) if stopped else None,
        **{key: value for mode in history.state.modes for key, value in mode.explained(of, frame).items()},
    }


def _rows(history: History, at: int) -> int:
    """Frames of a segment that has ended, whether they count or not."""
    segments = history.segments
    segment = history.state.walkers[int(segments.walker[at])].segments[int(segments.number[at])]
    return (segment.end or segment.first) - segment.first


def _hot(history: History, at: int) -> int:
    """Published frames of a segment that count in no bias and no average; 0 also where they cannot be read."""
    segments, frames = history.segments, history.directory.frames
    walker = walker_name(int(segments.walker[at]))
    rows = min(int(segments.end[at]), history.state.walkers[int(segments.walker[at])].frames) - int(segments.first[at])
    span = Span(walker, int(segments.first[at]), int(segments.first[at]) + max(rows, 0))
    with contextlib.suppress(OSError, EngineError):
        return int(frames.read(HOT, span).sum()) if rows > 0 and HOT in frames.variables(walker) else 0
    return 0


def _choice(history: History, start: records.Start) -> int:
    """The number of the choice that a start runs, maybe again."""
    return int(history.chosen_as(np.array(start.start)))


def _stopped_by(record: records.Stop | records.Tell) -> dict[str, str]:
    if isinstance(record, records.Tell):
        return {"by": record.who, "reason": record.text}
    return {"by": record.by, "reason": record.reason}


def tree(history: History, name: str) -> dict[str, Any]:
    """Trace a segment back to the prepared start: everything that its frames follow from.

    Returns: segments (itself first; segment, start, seed, parent, model, policy, exact (to the bit, with the
        state that the one before it left), set, with_model, bias, share),
        models (what is known of the fit of each model that chose one of them or that one was given), biases (SHA-256 by
        version, of those that pushed one of them), seed of the run, sha256 of the workflow file, parameters at the
        beginning of the run and what people had set by the newest of them, and environment with the git commit.
    Raises: UnknownName: the journal does not know it.
    """
    directory, table = history.directory, history.segments
    segments: list[dict[str, Any]] = []
    starts: list[records.Start] = []
    for at in reversed(table.lineage(table.find(name))):
        start = history.start(int(table.start[at]))
        known = {key: getattr(start, key) for key in ("seed", "model", "policy")}
        known["start"] = _choice(history, start)
        left = start.exact and (of := start.parent) and history.state.walkers[of.walker].segments[of.segment].state
        known["exact"] = bool(left and table.repeats[at])
        changed = {"set": dict(start.set), "draw": dict(start.draw) | start.member}
        starts.append(start)
        known |= changed | start.given._asdict()
        segments.append({"segment": table.name(at), "parent": _parent(history, start), **known})
    versions = sorted({each[name] for each in segments for name in ("model", "with_model")} - {0})
    return {
        "segments": segments,
        "models": [_card(directory, version) for version in versions],
        **{key: value for mode in history.state.modes for key, value in mode.traced(starts).items()},
        "seed": history.state.run.seed,
        "workflow": sha256(directory.workflow),
        "params": directory.settings()["params"],
        "set": {name: value for each in reversed(segments) for name, value in each["set"].items()},
        "environment": directory.environment(),
    }


def tree_lines(ancestry: dict[str, Any]) -> list[str]:
    """The same for a terminal, one line for each segment."""
    text = []
    for each in ancestry["segments"]:
        model = f"model {each['model']}" if each["model"] else "no model"
        origin = _origin(each)
        how = " with its state," if each["exact"] else ""
        by = "" if each["policy"] == "prepared" else f"{how} by {each['policy']}"
        changed = "".join(f", {key}={value}" for key, value in (each["set"] | each["draw"]).items())
        got = f", given {words}" if (words := str(given(each))) else ""
        text.append(f"{each['segment']:<8} from {origin}{by}, {model}, seed {each['seed']}{got}{changed}")
    for model in ancestry["models"]:
        facts = f"fitted to {count(model['frames'], 'frame')}, weights sha256 {model['weights'][:16]}"
        text.append(f"model {model['version']:<5} {facts}")
    text += [line for mode in MODES for line in mode.traced_lines(ancestry)]
    environment: dict[str, Any] = {"git_commit": "", "host": "unknown", "python": "unknown", "packages": {}}
    environment |= {key: value for key, value in ancestry["environment"].items() if value is not None}
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items() if version)
    return [
        *text,
        f"code     workflow.py sha256 {ancestry['workflow'][:16]}",
        f"engine   Steersman's commit {environment['git_commit'] or 'unknown'}",
        f"run      seed {ancestry['seed']}, {_assignments(ancestry['params'])}",
        *([f"set      {_assignments(ancestry['set'])}"] if ancestry["set"] else []),
        f"on       {environment['host']}, Python {environment['python']}, {packages}",
    ]


def _origin(facts: dict[str, Any]) -> str:
    if parent := facts["parent"]:
        return f"frame {parent['name']}"
    lost = facts["policy"] == records.UNKNOWN and not facts["seed"]  # as `History.start` gives one without a record
    return "what nobody knows" if lost else "the prepared start"


def lines(facts: dict[str, Any]) -> list[str]:
    """The same as sentences for a terminal."""
    model = f", with model {facts['model']}" if facts["model"] else ""
    text = [
        f"segment {facts['segment']} (start {facts['start']}, seed {facts['seed']})",
        f"  started from   {_origin(facts)}",
        f"  chosen by      {facts['policy']} among {count(facts['candidates'], 'frame')}{model}"
        if facts["candidates"]
        else "",
        f"  because        {facts['reason']}",
        f"  drawn          {_assignments(facts['draw'])}" if facts["draw"] else "",
        f"  condition      {_assignments(facts['condition'])}" if facts["condition"] else "",
    ]
    if words := str(given(facts)):
        text.append(f"  given          {words}")
    if facts["attempt"]:
        text.append(f"  attempt        {facts['attempt'] + 1}: the same start failed before")
    for each in facts["refused"]:
        passed = f"frame {each['frame']['name']}" if each["frame"] else "a new member"
        text.append(f"  passed over    {passed}: {each['reason']}")
    if not facts["repeats"]:
        text.append("  repeats        not bit for bit: it was answered together with others of its node")
    frames = "" if facts["frames"] is None else f" after {count(facts['frames'], 'frame')}"
    text.append(f"  ended          {facts['ended']}{frames}")
    if facts["hot"]:
        text.append(f"  hot            {count(facts['hot'], 'frame')}: not at the temperature of the averages")
    if facts["stopped_by"]:
        late = " (it had ended by then)" if facts["ended"] == "finished" else ""
        by, reason = facts["stopped_by"]["by"], facts["stopped_by"]["reason"]
        text.append(f"  stopped by     {by}: {reason.removeprefix(f'{by.lower()}: ')}{late}")
    if facts["cause"]:
        text.append(f"  cause          {facts['cause']} (see errors/{facts['segment']}.txt)")
    text += [line for mode in MODES for line in mode.explained_lines(facts)]
    return [line for line in text if line]


def given(facts: Mapping[str, Any]) -> Given:
    """What a segment got of what was learned, of what `why` returns."""
    return Given(*(facts[name] for name in Given._fields))


def _card(directory: RunDirectory, version: int) -> dict[str, Any]:
    card = directory.card(version) or {}
    weights = hashlib.sha256()
    for file in sorted(directory.model(version).glob("*.safetensors")):
        with reading.opened(file, directory.path) as opened:
            while piece := opened.read(2**20):
                weights.update(piece)
    return {"version": version, "frames": card.get("frames", 0), "weights": weights.hexdigest()}


def _parent(history: History, start: records.Start) -> dict[str, Any] | None:
    """The frame that a segment began at."""
    return None if history.state.blind else _named(history, start.parent)


def _named(history: History, frame: FrameId | None) -> dict[str, Any] | None:
    """Segment, row in the group of its walker, and the name that `tell RUN pin` takes."""
    if frame is None:
        return None
    segment = str(SegmentName(frame.walker, frame.segment))
    return {"segment": segment, "row": frame.row, "name": history.state.name_of(frame)}


def _assignments(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
