"""State -> what the time of the slots went into."""

from __future__ import annotations

import math

from steersman.journal.state import State
from steersman.journal.walkers import Walker

SIMULATING, STARTING, WAITING, READING, OTHER, PAUSED = (
    "simulating", "starting a worker", "waiting for a start or the end", "reading the start", "publishing and ending",
    "paused",
)  # fmt: skip


def shares(state: State, now: float) -> dict[str, float]:
    """Share of the slots' time by what it went into, adding up to 1; empty for a run without walkers.

    Time that people had paused the run counts as paused where a slot would have waited.

    Args:
        now: seconds since 1970; the time of the last record where nobody drives the run.
    """
    seconds = dict.fromkeys((SIMULATING, STARTING, WAITING, READING, OTHER, PAUSED), 0.0)
    total = 0.0
    for walker in state.walkers.values():
        gone = gone_at(state, walker, now)
        here = max(0.0, gone - walker.started)
        total += here
        seconds[STARTING] += min(here, walker.seconds["started"]) if walker.segments else here
        runs = walker.running is not None or walker.cut
        seconds[SIMULATING] += walker.seconds["ran"] + (max(0.0, gone - walker.since) if runs else 0.0)
        waits = len(walker.segments) > 0 and not runs  # what it says of a wait it says when that is over
        idle = max(0.0, gone - walker.heard) if waits else 0.0
        paused = state.wishes.paused_s(walker.heard, gone) if waits else 0.0
        seconds[WAITING] += walker.seconds["waited"] + idle - paused
        seconds[PAUSED] += walker.seconds["paused"] + paused
        seconds[READING] += walker.seconds["read"]
    seconds[OTHER] = max(0.0, total - sum(seconds.values()))
    whole = sum(seconds.values())
    shown = {cause: value for cause, value in seconds.items() if value or cause is not PAUSED}
    return {cause: value / whole for cause, value in shown.items()} if whole else {}


def gone_at(state: State, walker: Walker, now: float) -> float:
    """When a walker left or was lost, in seconds since 1970; `now` for one that lives.

    At the latest when its session was last heard of: a driver that is killed says nothing, and the next one gives its
    walkers up.
    """
    later = (session.after or session.t for session in state.sessions if session.t > walker.started)
    return min(walker.gone or now, next(later, math.inf))
