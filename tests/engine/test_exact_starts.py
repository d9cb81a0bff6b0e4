"""A run whose segments need a restart state: what was cut short, stopped or pinned goes on from one, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Params
from steersman.bus import ALL, TupleSpace
from steersman.engine.bag import Bag
from steersman.engine.inbox import Inbox
from steersman.engine.people import ANSWER, People
from steersman.engine.reconcile import reconcile
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import (
    Began,
    End,
    Ended,
    FrameId,
    Hired,
    Lost,
    Published,
    Run,
    Session,
    Start,
    Stop,
    Tell,
)
from steersman.journal.scoreboard import Scoreboard, ends_without_scores, misses_an_end, unscored
from steersman.journal.state import State
from steersman.stages.start import LOOKED
from steersman.steering import Opes, Random, Steering, Unsteered, WeightedEnsemble
from steersman.store import FRAME, SEGMENT, Frames, GroupWriter, Span

ROWS = 10
Known = dict[str, Any]
# What the workflow says, whether its segments look at frames, whether the first left a state -> what is concluded:
# whether segments begin at ends alone, and whether one that was cut short goes on from a frame without a state.
CONCLUSIONS: list[tuple[bool | None, bool | None, bool, bool, bool]] = [
    (None, None, False, False, True),  # as in a run of before: nobody knows
    (None, None, True, False, False),
    (None, True, True, False, True),  # a molecule: its frame with new velocities
    (None, True, False, False, True),
    (None, False, True, True, False),  # a checkpoint file
    (None, False, False, False, False),  # each segment is a member of its own
    (True, True, True, True, False),
    (True, None, False, True, False),
    (False, False, True, False, True),
]


def told(folder: Path, exact: bool | None, reads: bool | None) -> Recorder:
    recorder = Recorder(Journal(folder / "journal.jsonl"), State())
    recorder.record_all([Run(exact=exact), *(Hired(walker=walker, slot=walker) for walker in range(3))])
    if reads is not None:
        recorder.record(Published(walker=0, frames=0, segments=0, reads=reads))
    return recorder


def runs(recorder: Recorder, walker: int, start: int, *, state: bool = True, parent: FrameId | None = None) -> None:
    """A walker runs a segment of ten frames to its end."""
    of = recorder.state.walkers[walker]
    number, first = len(of.segments), of.frames
    if start not in recorder.state.starts:
        recorder.record(Start(start=start, seed=start, parent=parent))
    recorder.record(Began(walker=walker, segment=number, start=start, first_row=first))
    made = Known(walker=walker, segment=number, start=start, first_row=first, end_row=first + ROWS)
    recorder.record(Ended(**made, how="finished", state=state))
    recorder.record(Published(walker=walker, frames=first + ROWS, segments=number + 1))


def is_lost(recorder: Recorder, walker: int, start: int, parent: FrameId | None) -> None:
    """A walker dies within a segment, of which four frames are published."""
    of = recorder.state.walkers[walker]
    recorder.record(Start(start=start, seed=start, parent=parent, exact=parent is not None, policy="Unsteered"))
    recorder.record(Began(walker=walker, segment=len(of.segments), start=start, first_row=of.frames))
    recorder.record(Published(walker=walker, frames=of.frames + 4, segments=of.published_segments))
    recorder.record(Lost(walker=walker, cause="WorkerLost", keep=True))


def bag_of(recorder: Recorder, space: TupleSpace, steering: Steering | None = None) -> Bag:
    for name in space.names():
        space.clear(name)
    folder = recorder.journal.path.parent
    return Bag(recorder, space, steering or Steering(Unsteered()), folder / "decisions.jsonl", seed=1, rounds=False)


@pytest.mark.parametrize(("exact", "reads", "state", "ends_alone", "goes_on"), CONCLUSIONS)
def test_a_segment_that_lost_its_walker_goes_on_from_a_frame_only_where_that_is_a_start(
    exact: bool | None,
    reads: bool | None,
    state: bool,
    ends_alone: bool,
    goes_on: bool,
    space: TupleSpace,
    tmp_path: Path,
) -> None:
    """Else its own start is run again, with its state; and what the journal says is what is simulated."""
    recorder = told(tmp_path, exact, reads)
    runs(recorder, 0, 0, state=state)
    own = FrameId(0, ROWS - 1, 0)
    is_lost(recorder, 1, 1, own)
    bag = bag_of(recorder, space)
    bag.mend(retries=2)
    (again,) = [start.record for start in recorder.state.starts.values()]
    assert (recorder.state.exact, recorder.state.any_frame) == (ends_alone, goes_on)
    assert (again.parent, again.exact) == ((FrameId(1, 3, 0), False) if goes_on else (own, True))
    assert (again.again, again.policy) == (1, "continue" if goes_on else "Unsteered")
    assert again.seed != 1
    bag.close()


def test_one_look_at_a_frame_is_enough_whoever_is_heard_last(tmp_path: Path) -> None:
    """A simulation may begin a few of its segments elsewhere."""
    for said in ([True, False], [False, True], [False, True, False]):
        recorder = told(tmp_path, None, None)
        for reads in said:
            recorder.record(Published(walker=0, frames=0, segments=0, reads=reads))
        assert recorder.state.reads is True


@pytest.mark.parametrize(("cut", "state"), [("state", True), ("frame", False)])
def test_a_segment_whose_block_ends_goes_on_from_its_state_or_is_run_again(
    cut: str, state: bool, space: TupleSpace, tmp_path: Path
) -> None:
    recorder, own = told(tmp_path, None, reads=False), FrameId(0, ROWS - 1, 0)
    runs(recorder, 0, 0)
    recorder.record(Start(start=1, seed=1, parent=own, exact=True))
    recorder.record(Began(walker=1, segment=0, start=1, first_row=0))
    recorder.record(Ended(walker=1, segment=0, start=1, first_row=0, end_row=4, how="stopped", cut=cut, state=state))
    recorder.record(Published(walker=1, frames=4, segments=1))
    bag = bag_of(recorder, space)
    bag.mend(retries=2)
    (again,) = [start.record for start in recorder.state.starts.values()]
    assert (again.parent, again.exact) == (FrameId(1, 3, 0) if state else own, True)
    bag.close()


@pytest.mark.parametrize("asked", [True, False])
def test_what_the_end_of_a_session_cut_short_goes_on_in_the_next_and_what_was_asked_to_stop_does_not(
    asked: bool, space: TupleSpace, tmp_path: Path
) -> None:
    """A segment from its end, a member from its beginning: an estimate would lack those that take long."""
    recorder, draw = told(tmp_path, None, reads=True), {"point": [1.0]}
    recorder.record(Session(host="here", pid=1))
    for walker, drawn in enumerate(({}, draw)):
        recorder.record(Start(start=walker, seed=1, draw=drawn))
        recorder.record(Began(walker=walker, segment=0, start=walker, first_row=0))
        if asked:
            recorder.record(Stop(segment=f"w{walker}.0", reason="", by=""))
        made = Known(walker=walker, segment=0, start=walker, first_row=0, end_row=4)
        recorder.record(Ended(**made, how="stopped", state=False))
        recorder.record(Published(walker=walker, frames=4, segments=1))
    recorder.record(End(outcome="interrupted", reason="by Ctrl-C or a signal"))
    recorder.record(Session(host="here", pid=2))
    bag = bag_of(recorder, space)
    bag.mend(retries=2)
    again = {start.record.again: start.record for start in recorder.state.starts.values()}
    assert set(again) == (set() if asked else {0, 1})
    if not asked:
        assert (again[0].parent, again[1].parent) == (FrameId(0, 3, 0), None)
        assert again[1].draw == draw
    bag.close()


@pytest.mark.parametrize("state", [True, False])
def test_a_segment_that_was_stopped_before_it_left_a_state_is_gone_on_with_from_the_one_before(
    state: bool, space: TupleSpace, tmp_path: Path
) -> None:
    """So plain sampling goes on after a run that ended, and does not begin anew."""
    recorder = told(tmp_path, None, reads=False)
    runs(recorder, 0, 0)
    recorder.record(Start(start=1, seed=1, parent=FrameId(0, ROWS - 1, 0), exact=True))
    recorder.record(Began(walker=0, segment=1, start=1, first_row=ROWS))
    recorder.record(Ended(walker=0, segment=1, start=1, first_row=ROWS, end_row=ROWS + 4, how="stopped", state=state))
    recorder.record(Published(walker=0, frames=ROWS + 4, segments=2))
    bag = bag_of(recorder, space)
    bag.fill(lambda: unscored(recorder.state), 1)
    (start,) = [start.record for start in recorder.state.starts.values()]
    assert (start.policy, start.exact) == ("Unsteered", True)
    assert start.parent == (FrameId(0, ROWS + 3, 1) if state else FrameId(0, ROWS - 1, 0))
    bag.close()


@pytest.mark.parametrize("explore", [0.0, 1.0])
def test_random_restarts_are_at_ends_that_left_a_state_and_exact(
    explore: float, space: TupleSpace, tmp_path: Path
) -> None:
    """While the first segments run nobody knows yet whether they will leave one: there is the prepared start."""
    recorder = told(tmp_path, None, reads=False)
    recorder.record(Start(start=0, seed=0))
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Published(walker=0, frames=4, segments=0))
    bag = bag_of(recorder, space, Steering(Random(), explore, fallback=Random()))
    bag.fill(lambda: unscored(recorder.state), 2)
    assert [start.record.parent for start in recorder.state.starts.values()] == [None] * 3
    for number, state in enumerate([True, False, True]):
        runs(recorder, 1 + number % 2, 10 + number, state=state)
    bag.fill(lambda: unscored(recorder.state), 40)
    chosen = [each.record for each in recorder.state.starts.values() if each.record.parent]
    assert {each.parent for each in chosen} == {FrameId(1, 9, 0), FrameId(1, 19, 1)}
    assert all(each.exact for each in chosen)
    bag.close()


def test_an_end_is_offered_only_once_its_state_can_be_read(tmp_path: Path) -> None:
    """It is told before it is published; meanwhile the slot waits. One that was lost with its walker is none."""
    recorder = told(tmp_path, None, reads=True)
    recorder.record(Start(start=0, seed=0))
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Ended(walker=0, segment=0, start=0, first_row=0, end_row=ROWS, how="finished"))
    recorder.record(Published(walker=0, frames=ROWS, segments=0))
    before = unscored(recorder.state)
    assert (before.ends.sum(), ends_without_scores(recorder.state, before)) == (0, 1)
    assert not misses_an_end(recorder.state, before)
    recorder.record(Published(walker=0, frames=ROWS, segments=1))
    assert misses_an_end(recorder.state, before)
    assert ends_without_scores(recorder.state, before) == 1
    after = unscored(recorder.state)
    assert np.flatnonzero(after.ends).tolist() == [ROWS - 1]
    assert (ends_without_scores(recorder.state, after), misses_an_end(recorder.state, after)) == (0, False)
    board = Scoreboard(tmp_path / "scores.zarr", 0)
    board.add([Span("w0", 0, ROWS)], {"z": np.where(np.arange(ROWS) < ROWS - 1, 1.0, np.nan)})
    scored = board.scores(recorder.state)
    assert (len(scored), scored.ends.sum()) == (ROWS - 1, 0), "a frame without a score is not counted"
    assert ends_without_scores(recorder.state, scored) == 0, "nor waited for"
    is_lost(recorder, 1, 1, None)
    assert unscored(recorder.state).ends.sum() == 1
    assert ends_without_scores(recorder.state, unscored(recorder.state)) == 0


def test_the_end_of_a_segment_that_failed_is_not_gone_on_with_for_its_start_is_tried_again(tmp_path: Path) -> None:
    """Else there would be a lineage more each time, from where a simulation exploded."""
    recorder = told(tmp_path, None, True)
    runs(recorder, 0, 0, state=False)
    recorder.record(Start(start=1, seed=1, parent=FrameId(0, ROWS - 1, 0)))
    recorder.record(Began(walker=0, segment=1, start=1, first_row=ROWS))
    recorder.record(Ended(walker=0, segment=1, start=1, first_row=ROWS, end_row=ROWS + 3, how="failed"))
    recorder.record(Published(walker=0, frames=ROWS + 3, segments=2))
    scores = unscored(recorder.state)
    assert (len(scores), np.flatnonzero(scores.ends).tolist()) == (ROWS + 3, [ROWS - 1])
    assert ends_without_scores(recorder.state, scores) == 0


@pytest.mark.parametrize("steering", [Steering(bias=Opes("z", 14)), Steering(WeightedEnsemble("z", members=3))])
def test_nothing_is_pinned_where_frames_have_weights_from_the_beginning_on(
    steering: Steering, space: TupleSpace, tmp_path: Path
) -> None:
    """Also before there is a version of the bias, or a round."""
    recorder = told(tmp_path, None, True)
    runs(recorder, 0, 0)
    people = People(Inbox(space, recorder, lambda: 0.0), space, recorder, lambda changed: Params(), steering)
    space.put("tell", {"id": "1", "who": "me", "words": ["pin", "w0.0:9"]})
    people.listen()
    assert [answer[2] for answer in space.take_many_nowait(ANSWER, str, bool, str, n=ALL)] == [False]
    assert not recorder.state.wishes.pins


@pytest.mark.parametrize(("reads", "taken"), [(False, ["w0.0:9"]), (True, ["w0.0:9", "w0.0:3", "w1.0:9"])])
def test_a_frame_is_pinned_only_where_a_segment_can_begin(
    reads: bool, taken: list[str], space: TupleSpace, tmp_path: Path
) -> None:
    recorder = told(tmp_path, None, reads)
    runs(recorder, 0, 0)
    runs(recorder, 1, 1, state=False)
    bag = bag_of(recorder, space)
    people = People(Inbox(space, recorder, lambda: 0.0), space, recorder, lambda changed: Params())
    for name in ("w0.0:9", "w0.0:3", "w1.0:9"):
        space.put("tell", {"id": name, "who": "me", "words": ["pin", name]})
    people.listen()
    answers = {answer[1]: answer[2:] for answer in space.take_many_nowait(ANSWER, str, bool, str, n=ALL)}
    assert [name for name, (done, _) in answers.items() if done] == taken
    assert reads or "pin w0.0:9" in answers["w0.0:3"][1], "what can be pinned instead"
    bag.fill(lambda: unscored(recorder.state), len(taken))
    pinned = [each.record for each in recorder.state.starts.values() if each.record.pin]
    assert [each.exact for each in pinned] == [not reads] * len(taken)
    bag.close()


def test_what_a_lost_walker_has_committed_says_whether_it_looks_at_frames_and_left_states(tmp_path: Path) -> None:
    """Though no word of it was heard; of a walker whose frames are known, too."""
    for looked in (True, False):
        folder = tmp_path / str(looked)
        folder.mkdir()
        recorder = told(folder, None, None)
        for start in range(3):
            recorder.record(Start(start=start, seed=start))
        (folder / "frames").mkdir()
        attributes = {"running": [2, 2, 2 * ROWS], "unread_from": LOOKED if looked else 0}
        writer = GroupWriter(folder / "frames" / "w0", attributes=attributes)
        for number in range(2):
            writer.extend(FRAME, {"x": np.zeros(ROWS)})
            row = [number, number, -1, -1, 7, 0, number * ROWS, (number + 1) * ROWS, 0, -1, 100 * number]
            writer.append(SEGMENT, {"segments": np.array(row)})
        writer.publish()
        reconcile(recorder, Frames(folder / "frames"), keep=True, cause="the test")
        state = recorder.state
        assert [segment.state for segment in state.walkers[0].segments[:2]] == [False, True]
        assert (state.reads, state.leaves_state) == (looked, True)
        recorder.journal.close()


def test_a_journal_of_before_says_nothing_and_its_ends_are_gone_on_with(tmp_path: Path) -> None:
    recorder = told(tmp_path, None, None)
    recorder.record(Start(start=0, seed=0))
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Ended(walker=0, segment=0, start=0, first_row=0, end_row=ROWS, how="finished"))
    recorder.record(Published(walker=0, frames=ROWS, segments=1))
    recorder.record(Tell(id="1", who="me", verb="pin", text="", frame=FrameId(0, 3, 0)))
    assert '"state"' not in recorder.journal.path.read_text()
    assert (recorder.state.exact, unscored(recorder.state).exact) == (False, False)
    assert unscored(recorder.state).ends.sum() == 1
