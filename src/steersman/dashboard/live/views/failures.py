"""A watched run -> what broke: failures by cause, what they share, the end of their stderr, and what was done."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.journal import records
from steersman.store.names import SegmentName

MOST_GROUPS, MOST_SEGMENTS = 30, 40
TAIL = 6000  # characters of a file of errors/
NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?")


def answer(watched: Watched) -> dict[str, Any]:
    """Groups of failed segments by cause, numbers left aside, the largest first; stages that fail; what people see."""
    history = watched.history
    groups: dict[str, list[str]] = defaultdict(list)
    for name, cause in history.causes.items():
        groups[NUMBER.sub("#", cause)].append(name)
    largest = sorted(groups.values(), key=len, reverse=True)
    return {
        "groups": [_group(history, names) for names in largest[:MOST_GROUPS]],
        "more": max(0, len(groups) - MOST_GROUPS),
        "lost": [
            {"walker": walker.name, "node": walker.node, "t": walker.gone}
            for walker in history.state.walkers.values()
            if walker.was_lost
        ][-MOST_SEGMENTS:],
        "aside": sorted(history.state.aside),
        "noted": history.noted.most_common(20),
        "stages": [
            {"stage": name, "times": stage.failures, "cause": stage.cause}
            for name, stage in history.state.stages.items()
            if stage.failures
        ],
    }


def stderr(watched: Watched, segment: str) -> dict[str, str]:
    """The end of what a failed segment left in errors/; empty when there is nothing. The name is that of a failure."""
    if segment not in watched.history.causes:
        return {"text": ""}
    return {"text": watched.history.printed(segment)[-TAIL:]}


def _group(history: History, names: list[str]) -> dict[str, Any]:
    state = history.state
    numbers = [named.walker for name in names if (named := SegmentName.parse(name))]
    nodes = Counter(state.walkers[number].node or "this machine" for number in numbers if number in state.walkers)
    starts = [_start(history, name) for name in names[-MOST_SEGMENTS:]]
    policies = Counter(start.policy for start in starts if start)
    return {
        "cause": history.causes[names[-1]],
        "times": len(names),
        "segments": names[-MOST_SEGMENTS:],  # of which are policies, parameters, parents, and what was done
        "nodes": nodes.most_common(5),
        "policies": policies.most_common(5),
        "parameters": _shared([dict(start.set) for start in starts if start]),
        "parents": Counter(str(start.parent) for start in starts if start and start.parent).most_common(3),
        "done": _done(history, starts),
    }


def _start(history: History, name: str) -> records.Start | None:
    named = SegmentName.parse(name)
    walker = history.state.walkers.get(named.walker) if named else None
    if named is None or walker is None or named.number >= len(walker.segments):
        return None
    return history.start(walker.segments[named.number].start)


def _shared(settings: list[dict[str, Any]]) -> dict[str, str]:
    """Parameters that people had set, and that all of the segments share."""
    if not settings:
        return {}
    return {key: str(value) for key, value in settings[0].items() if all(s.get(key) == value for s in settings)}


def _done(history: History, starts: list[records.Start | None]) -> str:
    """What the engine did about them."""
    parents = {start.parent[:2] for start in starts if start and start.parent}
    blamed = len(parents & history.state.blamed)
    again = sum(bool(start and start.attempt) for start in starts)
    words = [f"{again} of those shown were repeated attempts of a start that had failed before" if again else ""]
    words.append(f"{blamed} frames are not proposed again" if blamed else "")
    return "; ".join(filter(None, words)) or "the start is tried again, up to the retries of the simulate stage"
