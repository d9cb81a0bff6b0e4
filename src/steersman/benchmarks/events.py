"""What the driver remembers: `steersman bench events --json` prints one JSON object.

So many events go through journal, state and the choice of starts as in a run, without walkers and bus. grown_mb:
resident memory above that at the beginning, after each tenth of the events; cpu_us_per_event: processor time of it all.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from steersman.engine.bag import Bag
from steersman.engine.process import give_large_arrays_back
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Published, Run
from steersman.journal.scoreboard import stale, unscored
from steersman.journal.state import State
from steersman.steering import Scores, Steering

FRAMES = 4  # of a segment
EVENTS = 4  # of a segment: start, began, ended, frames


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench events", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--walkers", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    give_large_arrays_back()  # as a driver does
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        print(json.dumps(measure(Path(folder), chosen.events, chosen.walkers)))


def measure(folder: Path, events: int, walkers: int) -> dict[str, Any]:
    state, bus = State(), Basket()
    recorder = Recorder(Journal(folder / "journal.jsonl"), state)
    bag = Bag(recorder, bus, Steering(), folder / "decisions.jsonl", seed=1, rounds=False)  # type: ignore[arg-type]
    recorder.record(Run())
    for walker in range(walkers):
        recorder.record(Hired(walker=walker, slot=walker))
    grown, before, began = [], _resident_mb(), time.process_time()
    segments = events // EVENTS
    for number, start in zip(range(segments), _starts(bag, bus, state, walkers), strict=False):
        _segment(recorder, number % walkers, number // walkers, start)
        if (number + 1) % (segments // 10) == 0:
            gc.collect()
            grown.append(round(_resident_mb() - before, 1))
    bag.close()
    cpu_us = 1e6 * (time.process_time() - began) / events
    return {"events": events, "walkers": walkers, "grown_mb": grown, "cpu_us_per_event": round(cpu_us, 1)}


class Basket:
    """Stands for the bus: it keeps the starts that were put last."""

    def __init__(self) -> None:
        self.starts: list[int] = []

    def put_many(self, tuples: Iterable[tuple[Any, ...]]) -> None:
        self.starts = [start for _, start, _ in tuples]


def _starts(bag: Bag, bus: Basket, state: State, walkers: int) -> Iterator[int]:
    """Starts as the engine chooses them: looking at all frames again when 1 % are new."""
    scores, seen = unscored(state), state.published

    def newest() -> Scores:
        nonlocal scores, seen
        if stale(seen, state.published, len(state.walkers)):
            scores, seen = unscored(state), state.published
        return scores

    while True:
        bag.fill(newest, walkers)
        yield from bus.starts


def _segment(recorder: Recorder, walker: int, number: int, start: int) -> None:
    first, end = FRAMES * number, FRAMES * (number + 1)
    recorder.record(Began(walker=walker, segment=number, start=start, first_row=first, waited_s=0.01))
    recorder.record(Ended(
        walker=walker, segment=number, start=start, first_row=first, end_row=end, how="finished", ran_s=30.0
    ))  # fmt: skip
    recorder.record(Published(walker=walker, frames=end, segments=number + 1))


def _resident_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
