"""Starts that fail: tried again, on another walker before they are blamed; and renewed when a parameter is set."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.bus import ALL, Server, TupleSpace
from steersman.engine.bag import Bag
from steersman.engine.crew import WALKER_FAILURES, Crew
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Start, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering import Steering
from steersman.worker.orders import LEAVE, START
from steersman.worker.walker import REPLACED


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TupleSpace]:
    with Server.start(tmp_path_factory.mktemp("server")) as server, TupleSpace.connect(server.url) as made:
        yield made


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(Journal(tmp_path / "journal.jsonl"), State())


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


@settings(max_examples=50, deadline=None)
@given(tried_by=st.lists(st.integers(0, 2), min_size=1, max_size=9), retries=st.integers(0, 3))
def test_a_start_is_blamed_after_its_retries_and_on_two_walkers_at_least(
    tried_by: list[int], retries: int, space: TupleSpace
) -> None:
    """One walker alone may be what is broken: a start that only it has tried is not the start's fault."""
    with TemporaryDirectory() as folder:
        recorder = Recorder(Journal(Path(folder) / "journal.jsonl"), State())
        bag = bag_of(recorder, space)
        recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(3)])
        recorder.record(Start(start=0, seed=1))
        for tries, walker in enumerate(tried_by, 1):
            (start,) = waiting(recorder)
            fail(recorder, walker, start.start)
            bag.mend(retries)
            blamed = tries > retries and len(set(tried_by[:tries])) >= 2
            assert (waiting(recorder) == []) == blamed
            if blamed:
                break
            (again,) = waiting(recorder)
            assert (again.again, again.attempt) == (start.start, tries)
            assert set(again.failed_on) == set(tried_by[:tries])
        bag.close()


def test_a_start_that_waits_runs_with_the_parameters_of_now_and_one_that_runs_keeps_its_own(
    recorder: Recorder, space: TupleSpace
) -> None:
    bag = bag_of(recorder, space)
    recorder.record(Hired(walker=0, slot=0))
    recorder.record_all([Start(start=number, seed=number, attempt=number, failed_on=(4,)) for number in range(3)])
    bag.align(1, offered=True)
    assert space.take_nowait(START, 0, dict) is not None
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Tell(id="1", who="me", verb="set", text="", settings={"steps": 7}))
    bag.align(1, offered=True)
    bag.align(1, offered=True)
    on_bus = {number: fields for _, number, fields in space.take_many_nowait(START, int, dict, n=ALL)}
    assert recorder.state.starts.keys() == {0, *on_bus}
    assert [(fields["again"], fields["set"], fields["attempt"]) for fields in on_bus.values()] == [
        (1, {"steps": 7}, 1), (2, {"steps": 7}, 2),
    ]  # fmt: skip
    assert not recorder.state.starts[0].record.set
    bag.close()


class Jobs:
    """Walkers' jobs, that end when the test says."""

    def __init__(self) -> None:
        self.walkers: dict[int, Future[Any]] = {}

    def submit(self, role: str, function: Any, run: str, number: int, *_: Any, heard: Any) -> Future[Any]:
        self.walkers[number] = Future()
        return self.walkers[number]


def test_a_walker_that_fails_again_and_again_is_replaced_and_its_start_tried_elsewhere(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """Its process may be what is broken. It is asked once to go, and ends itself; that is no loss to be blamed."""
    jobs: Any = Jobs()
    bag = bag_of(recorder, space)
    crew = Crew(RunDirectory(tmp_path), 2, recorder, jobs, bag, space, hang_s=9.0, keep=True, own_disks=False)
    (tmp_path / "frames.zarr").mkdir()
    recorder.record(Hired(walker=6, slot=0))  # of an earlier session
    crew.start()
    assert list(jobs.walkers) == [7, 8]
    recorder.record(Start(start=0, seed=1))
    for _ in range(WALKER_FAILURES):
        assert space.count(LEAVE, int, str) == 0
        (start,) = waiting(recorder)
        fail(recorder, 7, start.start)
        bag.mend(0)
        crew.advance()
        crew.advance()
    assert [tuple(word) for word in space.take_many_nowait(LEAVE, int, str, n=ALL)] == [(LEAVE, 7, REPLACED)]
    jobs.walkers[7].set_exception(RuntimeError("the worker is gone"))
    crew.look()
    crew.advance()
    assert list(jobs.walkers) == [7, 8, 9]
    state = recorder.state
    assert (state.walkers[9].slot, state.walkers[7].alive, state.killed, crew.hopeless) == (0, False, 0, "")
    (start,) = waiting(recorder)
    fail(recorder, 9, start.start)
    bag.mend(0)
    assert waiting(recorder) == [], "two walkers have failed on it"
    bag.close()
