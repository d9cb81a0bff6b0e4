"""State -> what the time of the slots went into."""

from __future__ import annotations

from steersman.journal.state import State

SIMULATING, STARTING, WAITING, READING, OTHER = (
    "simulating", "starting a worker", "waiting for a start", "reading the start", "publishing and ending",
)  # fmt: skip


def shares(state: State, now: float) -> dict[str, float]:
    """Share of the slots' time by what it went into, adding up to 1; empty for a run without walkers.

    Args:
        now: seconds since 1970; the time of the last record where nobody drives the run.
    """
    seconds = dict.fromkeys((SIMULATING, STARTING, WAITING, READING, OTHER), 0.0)
    total = 0.0
    for walker in state.walkers.values():
        gone = walker.gone or now
        total += max(0.0, gone - walker.started)
        seconds[STARTING] += walker.seconds["started"] if walker.segments else max(0.0, gone - walker.started)
        seconds[SIMULATING] += walker.seconds["ran"] + (max(0.0, gone - walker.since) if walker.running else 0.0)
        seconds[WAITING] += walker.seconds["waited"]
        seconds[READING] += walker.seconds["read"]
    seconds[OTHER] = max(0.0, total - sum(seconds.values()))
    whole = sum(seconds.values())
    return {cause: value / whole for cause, value in seconds.items()} if whole else {}
