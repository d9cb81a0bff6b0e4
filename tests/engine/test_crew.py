"""Walkers that fail, die and go home: replaced, blamed where they are to be, and told each word once."""

from __future__ import annotations

import errno
import functools
from pathlib import Path
from typing import Any

import numpy as np

from steersman.bus import ALL, TupleSpace
from steersman.engine.bag import Bag
from steersman.engine.crew import LATE_S, LOSSES_PER_SLOT, WALKER_FAILURES, Crew
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Joined, Note, Published, Start, words
from steersman.journal.run_directory import RunDirectory
from steersman.store import SEGMENT, SEGMENT_FIELDS, GroupWriter
from steersman.store.shard import shard_file
from steersman.worker.orders import LEAVE, START, stop_name
from steersman.worker.walker import REPLACED
from tests.engine.bags import Jobs, bag_of, fail, waiting


def crew_of(slots: int, recorder: Recorder, space: TupleSpace, folder: Path) -> tuple[Jobs, Bag, Crew]:
    (folder / "frames.zarr").mkdir()
    jobs: Any = Jobs()
    bag = bag_of(recorder, space)
    crew = Crew(RunDirectory(folder), slots, recorder, jobs, bag, space, hang_s=9.0, keep=True, own_disks=False)
    return jobs, bag, crew


def test_a_run_whose_walkers_are_all_lost_before_a_frame_ends_with_the_cause(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """Each of them had begun a segment, as where no file may become large; frames are what shows that some work."""
    jobs, bag, crew = crew_of(1, recorder, space, tmp_path)
    recorder.record(Start(start=0, seed=1))
    crew.start()
    for lost in range(2 * LOSSES_PER_SLOT):
        (walker,) = [number for number, job in jobs.walkers.items() if not job.done()]
        assert not crew.hopeless
        recorder.record(Began(walker=walker, segment=0, start=0, first_row=0))
        if lost == 1:
            recorder.record(Published(walker=walker, frames=1, segments=0, simulated=1.0))
        jobs.walkers[walker].set_exception(OSError(errno.EIO, "File too large"))
        crew.look()
        crew.advance()
        if crew.hopeless:
            break
    assert lost == LOSSES_PER_SLOT, "in a row, after the frame"
    assert "File too large" in crew.hopeless
    bag.close()


def test_a_walker_that_fails_again_and_again_is_replaced_and_its_start_tried_elsewhere(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """Its process may be what is broken. It is asked once to go, and ends itself; that is no loss to be blamed."""
    jobs, bag, crew = crew_of(2, recorder, space, tmp_path)
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


def test_a_lost_walker_whose_frames_cannot_be_read_costs_these_alone(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    jobs, bag, crew = crew_of(1, recorder, space, tmp_path)
    directory = RunDirectory(tmp_path)
    crew.start()
    recorder.record(Start(start=0, seed=1))
    with_table = GroupWriter(directory.frames.path / "w0")
    with_table.append(SEGMENT, {"segments": np.zeros(len(SEGMENT_FIELDS), np.int64)})
    with_table.close()
    shard_file(directory.frames.path / "w0" / "segments", 0, np.zeros(len(SEGMENT_FIELDS))).write_bytes(b"damaged")
    jobs.walkers[0].set_exception(RuntimeError("the worker is gone"))
    crew.look()
    crew.advance()
    assert list(jobs.walkers) == [0, 1]
    assert "beyond row 0" in words(recorder.state.notes[-1])
    bag.close()


def test_words_that_a_server_forgets_are_said_again_and_each_only_once(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """To stop, to go home, and that the run ends: else a walker would go on, and the end would wait for it."""
    _, bag, crew = crew_of(2, recorder, space, tmp_path)
    crew.start()
    recorder.record_all([Start(start=start, seed=1) for start in range(5)])
    for start in range(WALKER_FAILURES):
        fail(recorder, 0, start)
    recorder.record(Began(walker=1, segment=0, start=4, first_row=0))
    crew.stop_segment("w1.0", "enough", by="somebody")

    def forgotten() -> list[tuple[Any, ...]]:
        templates: list[tuple[Any, ...]] = [(LEAVE, int, str), (stop_name("w1.0"), str), (START, -1, dict)]
        return [tuple(word)[:2] for each in templates for word in space.take_many_nowait(*each, n=ALL)]

    said: list[tuple[Any, ...]] = [(LEAVE, 0), (stop_name("w1.0"), "w1.0")]
    goodbye = functools.partial(crew.dismiss, whole=False)
    for say, expected in ((crew.advance, said), (goodbye, [*said, (START, -1), (START, -1)])):
        for _ in range(2):
            forgotten()
            crew.doubt()
            say()
            say()
            assert forgotten() == expected
    bag.close()


def test_words_that_nobody_is_left_to_hear_are_taken_off_the_bus(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """Of a segment that ended by itself, of a walker that died first: a session of weeks would gather them."""
    jobs, bag, crew = crew_of(2, recorder, space, tmp_path)
    crew.start()
    recorder.record_all([Start(start=start, seed=1) for start in range(5)])
    for start in range(WALKER_FAILURES):
        fail(recorder, 0, start)
    began: dict[str, Any] = {"walker": 1, "segment": 0, "start": 4, "first_row": 0}
    recorder.record(Began(**began))
    crew.stop_segment("w1.0", "enough", by="somebody")
    crew.advance()
    words: list[tuple[Any, ...]] = [(LEAVE, int, str), (stop_name("w1.0"), str)]
    assert [space.count(*word) for word in words] == [1, 1]
    recorder.record(Ended(**began, end_row=0, how="finished"))
    jobs.walkers[0].set_exception(RuntimeError("the worker is gone"))
    crew.look()
    crew.advance()
    assert [space.count(*word) for word in words] == [0, 0]
    bag.close()


def test_an_end_waits_for_walkers_that_were_there_and_for_segments_that_run(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """Not for those that come while the others leave: of thousands some come for minutes."""
    jobs, bag, crew = crew_of(4, recorder, space, tmp_path)
    crew.start()
    recorder.record(Start(start=0, seed=1))

    def at_work_after(*done: int) -> bool:
        for walker in done:
            jobs.walkers[walker].set_result("the run ends")
        crew.look()
        crew.dismiss(whole=False)
        return crew.at_work

    recorder.record(Joined(walker=0, node="n1", pid=1, pool="p"))
    assert at_work_after()
    recorder.record_all([Joined(walker=walker, node="n1", pid=1, pool="p") for walker in (1, 2)])
    recorder.record(Began(walker=2, segment=0, start=0, first_row=0))  # it had its start before all were dismissed
    assert at_work_after(0)
    assert not at_work_after(2)
    bag.close()


def test_a_segment_that_goes_on_when_the_run_is_to_end_is_told_once(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """One of a simulate function that never looks at out.stopped; not one that ends soon."""
    _, bag, crew = crew_of(2, recorder, space, tmp_path)
    at = iter((0.0, LATE_S - 1, LATE_S + 1, LATE_S + 2))
    crew.start()
    recorder.record_all([Joined(walker=walker, node="n1", pid=1, pool="p") for walker in (0, 1)])
    recorder.record_all([Start(start=0, seed=1), Began(walker=0, segment=0, start=0, first_row=0)])
    told = []
    for now in at:
        crew._clock = functools.partial(float, now)
        crew.dismiss(whole=False)
        told.append(["w0.0" in note.text for note in recorder.state.notes if isinstance(note, Note)])
    assert told == [[], [], [True], [True]]
    bag.close()
