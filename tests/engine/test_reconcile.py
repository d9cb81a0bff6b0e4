"""What the store holds and the journal does not know is adopted, whatever part of the story was lost."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import zarr

from steersman.engine.reconcile import catch_up, first_shapes, hear, reconcile
from steersman.journal import published
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Published, Start
from steersman.journal.state import State
from steersman.store import FRAME, SEGMENT, Frames, GroupWriter

ROWS = 10
ASKED = 1  # the segment that asked what need not be so again
Event = Began | Ended | Published


def story(segments: int, partial: int) -> list[Event]:
    """All that one walker says: segments of ten frames, and one that is under way."""
    events: list[Event] = []
    for number in range(segments + (partial > 0)):
        first, end = number * ROWS, (number + 1) * ROWS
        events.append(Began(walker=0, segment=number, start=number, first_row=first))
        if number < segments:
            events.append(Ended(
                walker=0, segment=number, start=number, first_row=first, end_row=end, how="finished", simulated=1.0,
                ran_s=1.0, repeats=number != ASKED,
            ))  # fmt: skip
            events.append(Published(walker=0, frames=end, segments=number + 1))
    return events


def stored(path: Path, segments: int, partial: int) -> Frames:
    path.mkdir()
    writer = GroupWriter(path / "w0", attributes={"running": [segments, segments, segments * ROWS]})
    for number in range(segments):
        writer.extend(FRAME, {"time": np.linspace(0.1, 1.0, ROWS)})
        row = [number, number, -1, -1, 7, 0, number * ROWS, (number + 1) * ROWS, 0, -1, -1, -1, -1, number != ASKED]
        writer.append(SEGMENT, {"segments": np.array(row, np.int64)})
        writer.publish()
    if partial:
        writer.extend(FRAME, {"time": np.linspace(0.1, 0.4, partial)})
    writer.publish()
    return Frames(path)


def heard(folder: Path, events: list[Event]) -> Recorder:
    """A run of one walker and five starts, which has heard of these events."""
    recorder = Recorder(Journal(folder / "journal.jsonl", clock=itertools.count(1.0).__next__), State())
    for start in range(5):
        recorder.record(Start(start=start, seed=7, policy="prepared"))
    recorder.record(Hired(walker=0, slot=0))
    for event in events:
        recorder.record(event)
    return recorder


@pytest.mark.parametrize("known", range(10))
def test_what_a_killed_server_forgot_to_tell_is_known_all_the_same(tmp_path: Path, known: int) -> None:
    """And when it is told late, or twice, it is known already: the walker has come, it lives, and the run waits for
    nothing."""
    frames = stored(tmp_path / "frames", 3, 0)
    recorder = heard(tmp_path, story(3, 0)[:known])
    walker = recorder.state.walkers[0]
    assert walker.knows(story(3, 0)[-2]) == (known >= 8), "the last end"
    catch_up(recorder, frames)
    assert walker.has_come
    assert walker.alive
    assert (recorder.state.frames, sorted(recorder.state.starts)) == (3 * ROWS, [3, 4])
    assert not recorder.state.running
    assert all(walker.knows(event) for event in story(3, 0))
    recorder.journal.close()


@pytest.mark.parametrize("lost", range(4))
def test_a_run_waits_for_no_event_that_was_forgotten(tmp_path: Path, lost: int) -> None:
    """Whichever events a killed server forgets, the last one that is heard brings the state that all of them bring."""
    events = story(3, 0)
    frames = stored(tmp_path / "frames", 3, 0)
    for number, forgotten in enumerate(itertools.combinations(events[:-1], lost)):
        (tmp_path / f"{number}").mkdir()
        recorder = heard(tmp_path / f"{number}", [])
        walker = recorder.state.walkers[0]
        assert all(hear(recorder, frames, walker, event) for event in events if event not in forgotten)
        assert (walker.frames, walker.running, walker.published_segments) == (3 * ROWS, None, 3)
        assert not recorder.state.running
        assert sorted(recorder.state.starts) == [3, 4]
        assert not hear(recorder, frames, walker, Began(walker=0, segment=7, start=7, first_row=70)), (
            "what cannot follow"
        )
        recorder.journal.close()


def test_a_start_that_failed_is_tried_again_though_nobody_heard_that_it_began(tmp_path: Path) -> None:
    failed = Ended(walker=0, segment=0, start=0, first_row=0, end_row=0, how="failed", simulated=0.0, ran_s=1.0)
    assert sorted(heard(tmp_path, [failed]).state.failed) == [0]


def test_what_covers_an_end_that_was_not_heard_is_not_taken_alone(tmp_path: Path) -> None:
    """Else that segment runs for ever, and a round with it."""
    began, _, published = story(1, 0)
    walker = heard(tmp_path, [began]).state.walkers[0]
    assert not walker.expects(published)
    assert not walker.knows(published)


@pytest.mark.parametrize("partial", [0, 4])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("known", range(11))
def test_whatever_was_told_last_the_state_is_the_same(tmp_path: Path, known: int, keep: bool, partial: int) -> None:
    """The driver died after any of the events; the store holds three segments and perhaps a part of a fourth."""
    frames = stored(tmp_path / "frames", 3, partial)
    recorder = heard(tmp_path, story(3, partial)[:known])
    state = recorder.state
    told = sum(walker.frames for walker in state.walkers.values())
    assert reconcile(recorder, frames, keep=keep, cause="the test") == 3 * ROWS + partial - told
    recorder.journal.close()

    kept = partial if keep else 0
    assert state.frames == 3 * ROWS + kept
    assert sum(span.rows for span in published.spans(state)) == state.frames
    assert state.simulated == pytest.approx(3.0 + kept / ROWS), "what the frames that count simulated"
    assert sorted(segment.start for segment in state.segments if segment.counts and segment.end != segment.first) == [
        0, 1, 2, *([3] if kept else []),
    ]  # fmt: skip
    assert sorted(state.broken) == ([3] if kept else [])
    assert sorted(state.starts) == ([4] if kept else [3, 4])
    assert all(start.segment is None for start in state.starts.values()), "all of them can be run again"
    assert not state.walkers[0].alive
    assert [segment.repeats for segment in state.walkers[0].segments[:3]] == [number != ASKED for number in range(3)]
    assert zarr.open_array(frames.path / "w0" / "time", mode="r").shape == (3 * ROWS + partial,), "for any program"
    assert reconcile(recorder, frames, keep=keep, cause="again") == 0


def test_what_frames_of_a_resumed_run_must_be_like_is_known_from_whichever_walker_has_some(tmp_path: Path) -> None:
    """The first fifty had none, and the next is damaged."""
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())
    recorder.record_all([Hired(walker=number, slot=0) for number in range(53)])
    assert first_shapes(recorder.state, Frames(tmp_path)) is None
    for number, atoms in (51, 7), (52, 3):
        writer = GroupWriter(tmp_path / f"w{number}")
        writer.append(FRAME, {"x": np.zeros((atoms, 3)), "time": 0.0, "segment": np.int32(0)})
        writer.close()
        recorder.record(Published(walker=number, frames=1, segments=0))
    (tmp_path / "w51" / "zarr.json").write_text("{}")
    assert first_shapes(recorder.state, Frames(tmp_path)) == ("w52", {"x": [3, 3], "time": []})
    recorder.journal.close()
