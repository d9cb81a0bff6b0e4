"""Journal and decisions -> why a segment was run: its start, model, reason, refused alternatives, and its end."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from steersman.journal import file as journal
from steersman.journal.errors import NoSuchSegment
from steersman.journal.file import Record
from steersman.journal.run_directory import RunDirectory


def why(directory: RunDirectory, segment: str) -> dict[str, Any]:
    """Tell where a segment came from and how it ended.

    Args:
        segment: `<walker>.<number>`, e.g. "w3.17".
    Returns: segment, start, seed, parent (segment and frame, or None), model, policy, reason, candidates, refused,
        ended, frames, cause and stopped_by; times in seconds since 1970.
    Raises: NoSuchSegment: the journal does not know it.
    """
    began, ended, starts, stopped, newest = _records(directory, segment)
    if began is None:
        raise NoSuchSegment(segment, newest or "none yet")
    start = starts[began["start"]]
    decision = _decision(directory, began["start"])
    ended = ended or {}
    return {
        "segment": segment,
        "start": start["start"],
        "seed": start["seed"],
        "began": began["t"],
        "parent": _named(start["parent"]),
        "model": start["model"],
        "policy": start["policy"],
        "reason": start["reason"],
        "attempt": start.get("attempt", 0),
        "candidates": decision.get("candidates", 0),
        "refused": [{**each, "frame": _named(each["frame"])} for each in decision.get("refused", [])],
        "ended": ended.get("how", "running"),
        "frames": ended["end_row"] - ended["first_row"] if ended else None,
        "cause": ended.get("cause") or None,
        "stopped_by": {key: stopped[key] for key in ("by", "reason")} if stopped else None,
    }


def tree(directory: RunDirectory, segment: str) -> dict[str, Any]:
    """Trace a segment back to the prepared start: everything that its frames follow from.

    Returns: segments (itself first; segment, start, seed, parent, model, policy, exact, set), models (what is known of
        the fit of each model that chose one of them), seed of the run, sha256 of the workflow file, parameters, and
        environment with the git commit.
    Raises: NoSuchSegment: the journal does not know it.
    """
    starts: dict[int, Record] = {}
    began: dict[str, int] = {}
    run: Record = {}
    for record in journal.read(directory.journal):
        if record["kind"] == "start":
            starts[record["start"]] = record
        elif record["kind"] in ("began", "ended"):
            began[f"w{record['walker']}.{record['segment']}"] = record["start"]
        elif record["kind"] == "run":
            run = record
    if segment not in began:
        raise NoSuchSegment(segment, next(reversed(began), "none yet"))
    segments: list[dict[str, Any]] = []
    name: str | None = segment
    while name is not None:
        start = starts[began[name]]
        told = {key: start[key] for key in ("start", "seed", "model", "policy", "exact")}
        changed = {"set": start.get("set", {}), "draw": start.get("draw", {})}
        segments.append({"segment": name, "parent": _named(start["parent"]), **changed, **told})
        name = segments[-1]["parent"]["segment"] if start["parent"] else None
    versions = sorted({each["model"] for each in segments if each["model"]})
    return {
        "segments": segments,
        "models": [_card(directory, version) for version in versions],
        "seed": run["seed"],
        "workflow": hashlib.sha256(directory.workflow.read_bytes()).hexdigest(),
        "params": directory.settings()["params"],
        "environment": json.loads((directory.path / "environment.json").read_text()),
    }


def tree_lines(told: dict[str, Any]) -> list[str]:
    """The same for a terminal, one line for each segment."""
    text = []
    for each in told["segments"]:
        parent, model = each["parent"], f"model {each['model']}" if each["model"] else "no model"
        origin = f"frame {parent['row']} of {parent['segment']}" if parent else "the prepared start"
        how = "exactly, " if each["exact"] else ""
        changed = "".join(f", {key}={value}" for key, value in (each["set"] | each["draw"]).items())
        text.append(
            f"{each['segment']:<8} from {origin} {how}by {each['policy']}, {model}, seed {each['seed']}{changed}"
        )
    for model in told["models"]:
        facts = f"fitted to {model['frames']} frames, weights sha256 {model['weights'][:16]}"
        text.append(f"model {model['version']:<5} {facts}")
    environment = told["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items() if version)
    return [
        *text,
        f"code     workflow.py sha256 {told['workflow'][:16]}, commit {environment['git_commit'] or 'unknown'}",
        f"run      seed {told['seed']}, " + ", ".join(f"{key}={value}" for key, value in told["params"].items()),
        f"on       {environment['host']}, Python {environment['python']}, {packages}",
    ]


def lines(told: dict[str, Any]) -> list[str]:
    """The same as sentences for a terminal."""
    parent = told["parent"]
    origin = f"frame {parent['row']} of segment {parent['segment']}" if parent else "the prepared start"
    model = f", with model {told['model']}" if told["model"] else ""
    text = [
        f"segment {told['segment']} (start {told['start']}, seed {told['seed']})",
        f"  started from   {origin}",
        f"  chosen by      {told['policy']} among {told['candidates']} frames{model}" if told["candidates"] else "",
        f"  because        {told['reason']}",
    ]
    if told["attempt"]:
        text.append(f"  attempt        {told['attempt'] + 1}: the same start failed before")
    for each in told["refused"]:
        frame = each["frame"]
        text.append(f"  refused        frame {frame['row']} of {frame['segment']}: {each['reason']}")
    frames = "" if told["frames"] is None else f" after {told['frames']} frames"
    text.append(f"  ended          {told['ended']}{frames}")
    if told["stopped_by"]:
        text.append(f"  stopped by     {told['stopped_by']['by']}: {told['stopped_by']['reason']}")
    if told["cause"]:
        text.append(f"  cause          {told['cause']} (see errors/{told['segment']}.txt)")
    return [line for line in text if line]


def _records(
    directory: RunDirectory, segment: str
) -> tuple[Record | None, Record | None, dict[int, Record], Record | None, str]:
    began = ended = stopped = None
    starts: dict[int, Record] = {}
    newest = ""
    for record in journal.read(directory.journal):
        kind = record["kind"]
        if kind == "start":
            starts[record["start"]] = record
        elif kind in ("began", "ended"):
            newest = f"w{record['walker']}.{record['segment']}"
            if newest == segment:
                began, ended = (record, ended) if kind == "began" else (began, record)
        elif kind == "stop" and record["segment"] == segment:
            stopped = record
    return began, ended, starts, stopped, newest


def _card(directory: RunDirectory, version: int) -> dict[str, Any]:
    card = directory.card(version) or {}
    weights = hashlib.sha256()
    for file in sorted(directory.model(version).glob("*.safetensors")):
        weights.update(file.read_bytes())
    return {"version": version, "frames": card.get("frames", 0), "weights": weights.hexdigest()}


def _decision(directory: RunDirectory, start: int) -> dict[str, Any]:
    with directory.decisions.open() as file:
        for text in file:
            decision: dict[str, Any] = json.loads(text)
            if decision["start"] == start:
                return decision
    return {}


def _named(frame: list[int] | None) -> dict[str, Any] | None:
    return None if frame is None else {"segment": f"w{frame[0]}.{frame[2]}", "row": frame[1]}
