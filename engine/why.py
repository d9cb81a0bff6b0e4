"""Journal and decisions -> why a segment was run: its start, model, reason, refused alternatives, and its end."""

from __future__ import annotations

import json
from typing import Any

from steersman.engine import journal
from steersman.engine.errors import NoSuchSegment
from steersman.engine.journal import Record
from steersman.engine.run_directory import RunDirectory


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


def lines(told: dict[str, Any]) -> list[str]:
    """The same as sentences for a terminal."""
    parent = told["parent"]
    origin = f"frame {parent['row']} of segment {parent['segment']}" if parent else "the prepared start"
    model = f"model {told['model']}" if told["model"] else "no model yet"
    text = [
        f"segment {told['segment']} (start {told['start']}, seed {told['seed']})",
        f"  started from   {origin}",
        f"  chosen by      {told['policy']} with {model}, among {told['candidates']} frames",
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
    return text


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


def _decision(directory: RunDirectory, start: int) -> dict[str, Any]:
    with directory.decisions.open() as file:
        for text in file:
            decision: dict[str, Any] = json.loads(text)
            if decision["start"] == start:
                return decision
    return {}


def _named(frame: list[int] | None) -> dict[str, Any] | None:
    return None if frame is None else {"segment": f"w{frame[0]}.{frame[2]}", "row": frame[1]}
