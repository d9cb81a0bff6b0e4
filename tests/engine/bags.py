"""A bag of starts, and what its walkers do."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from steersman.bus import TupleSpace
from steersman.engine.bag import Bag
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Start
from steersman.steering import Steering


def bag_of(recorder: Recorder, space: TupleSpace) -> Bag:
    for name in space.names():
        space.clear(name)
    return Bag(recorder, space, Steering(), recorder.journal.path.parent / "decisions.jsonl", seed=1, rounds=False)


def waiting(recorder: Recorder) -> list[Start]:
    return [start.record for start in recorder.state.starts.values() if start.segment is None]


def fail(recorder: Recorder, walker: int, start: int) -> None:
    """A walker takes a start and fails on it."""
    number = len(recorder.state.walkers[walker].segments)
    recorder.record(Began(walker=walker, segment=number, start=start, first_row=0))
    made: dict[str, Any] = {"walker": walker, "segment": number, "start": start, "first_row": 0, "end_row": 0}
    recorder.record(Ended(**made, how="failed", cause="KeyError: 'x'"))


class Jobs:
    """Walkers' jobs, that end when the test says."""

    def __init__(self) -> None:
        self.walkers: dict[int, Future[Any]] = {}

    def submit(self, role: str, function: Any, run: str, number: int, *_: Any, heard: Any) -> Future[Any]:
        self.walkers[number] = Future()
        return self.walkers[number]
