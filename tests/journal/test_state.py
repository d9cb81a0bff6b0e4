"""What a state makes of the story that the journal tells."""

from collections import Counter
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.data.history import History
from steersman.data.slot_time import OTHER, PAUSED, READING, SIMULATING, STARTING, WAITING, shares
from steersman.journal import run_directory
from steersman.journal.file import Journal
from steersman.journal.records import (
    Began,
    Blame,
    Damaged,
    End,
    Ended,
    Epoch,
    FrameId,
    Hired,
    Left,
    Lost,
    Metrics,
    Note,
    Published,
    Record,
    Run,
    Scored,
    Session,
    Start,
    Tell,
    Training,
)
from steersman.journal.state import State


def test_only_the_segment_that_ran_is_blamed_for_its_walkers_death() -> None:
    """Segment 0 ended well and was not published yet when segment 1 killed the process."""
    state = State()
    state.apply(Hired(walker=0, slot=0))
    for start in (0, 1):
        state.apply(Start(start=start, seed=start, parent=FrameId(7, start, 0)))
        state.apply(Began(t=1.0, walker=0, segment=start, start=start, first_row=5 * start))
    state.apply(Lost(t=2.0, walker=0, cause="WorkerLost", keep=True, blame=True))
    assert state.deaths == {(7, 1): 1}
    assert [state.starts[start].losses for start in (0, 1)] == [0, 1]


def test_a_segment_that_was_published_has_ended_when_its_walker_is_gone() -> None:
    """The event that it ended was lost; it is not lost with its walker, and does not run for ever."""
    state = State([Hired(walker=0, slot=0), Start(start=0, seed=0)])
    state.apply(Began(walker=0, segment=0, start=0, first_row=0))
    state.apply(Published(walker=0, frames=5, segments=1))
    state.apply(Lost(walker=0, cause="WorkerLost", keep=True))
    (segment,) = state.walkers[0].segments
    assert (segment.end, segment.how, segment.counts) == (5, "finished", True)


def test_a_state_knows_which_values_of_a_metric_are_of_one_model_and_of_how_many_frames() -> None:
    state = State()
    story = [(1, {"z": 1.0}), (1, {"z": 2.0, "late": 5.0}), (2, {"z": 3.0}), (3, {"z": 4.0, "late": 6.0})]
    for frames, (model, values) in enumerate(story, 10):
        state.apply(Scored(model=model, frames=frames))
        state.apply(Metrics(values=values))
    assert state.progress(0.0).begins == {"z": [2, 3], "late": [1]}
    assert state.progress(0.0).measured_at == {"z": [10, 11, 12, 13], "late": [11, 13]}
    state.apply(Metrics(values={"z": 5.0}, frames=7))
    assert state.progress(0.0).measured_at["z"][-1] == 7, "those of frames that lack no score"


def test_a_start_says_its_number_and_what_is_not_the_default() -> None:
    start = Start(t=5.0, start=3, seed=7, parent=FrameId(1, 4, 2), policy="Novelty")
    assert f"start {start}" == "start 3\nseed: 7\nparent: row 4 of walker w1, of segment w1.2\npolicy: Novelty"


def test_a_training_of_an_earlier_session_has_no_epoch_until_it_says_one() -> None:
    state = State([Session(t=1.0, host="here", pid=1), Training(t=2.0, model=1, frames=10)])
    for session in (2, 3):
        state.apply(Epoch(t=3.0, model=1, epoch=22, epochs=30))
        state.apply(Session(t=4.0, host="here", pid=session, after=3.0))
        assert state.models[0].epoch is None
    state.apply(Epoch(t=5.0, model=1, epoch=1, epochs=30))
    assert state.models[0].epoch


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), min_size=1, max_size=5), st.booleans(), st.floats(0, 99)
)
def test_hours_are_those_of_sessions_and_not_of_the_pauses_between_them(
    sessions: list[tuple[float, float]], ended: bool, later: float
) -> None:
    """Each takes a while, and the next one begins a while after it; a pause by a person goes on into the next."""
    state, t, after, spent = State(), 1e9, 0.0, 0.0
    for number, (took, pause) in enumerate(sessions):
        state.apply(Session(t=t, host="here", pid=number, after=after or None))
        if not number:
            state.apply(Tell(t=t, id="a", who="me", verb="pause", text="pause"))
        t, spent = t + took, spent + took
        state.apply(Note(t=t, text="the last of this session"))
        after, t = t, t + pause
    if ended:
        state.apply(End(t=after, outcome="budget", reason=""))
    now = after + later
    assert state.hours(now) * 3600 == pytest.approx(spent + (0 if ended else later), abs=1e-3)
    state.apply(Session(t=now, host="here", pid=9, after=after))
    state.apply(Tell(t=now + 1.0, id="b", who="me", verb="continue", text="continue"))
    assert state.wishes.paused_hours * 3600 == pytest.approx(spent + 1.0, abs=1e-3)


@settings(max_examples=20)
@given(left=st.booleans(), ended=st.booleans())
def test_a_repair_takes_no_time_of_the_run(left: bool, ended: bool) -> None:
    """The half hour between the end and the repair was counted as wall time, and its slots as idle."""
    span: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    state = State([Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0), Start(t=1.0, start=0, seed=0)])
    state.apply(Began(t=2.0, **span))
    state.apply(Ended(t=12.0, **span, end_row=5, how="finished", ran_s=10.0))
    for record in [Left(t=13.0, walker=0, reason="")] * left + [End(t=14.0, outcome="goal", reason="")] * ended:
        state.apply(record)
    before = state.hours(state.now), shares(state, state.now)
    state.apply(Damaged(t=1865.0, walker=0, reason="a byte was changed"))
    assert (state.hours(state.now), shares(state, state.now)) == before


@settings(max_examples=20)
@given(began=st.booleans(), adopted=st.booleans())
def test_the_time_between_a_driver_that_was_killed_and_the_next_one_is_no_time_of_the_slots(
    began: bool, adopted: bool
) -> None:
    """They were idle for the hour in which nobody drove the run. Its walkers are given up by the next driver."""
    span: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}

    def resumed(after_s: float) -> dict[str, float]:
        at = 12.0 + after_s
        state = State([Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0)])
        for record in [
            Start(t=1.0, start=0, seed=0), *[Began(t=2.0, **span)] * began, Scored(t=12.0, model=0, frames=0),
            Session(t=at, host="here", pid=2, after=12.0), *[Began(t=at, **span, adopted=True)] * (adopted > began),
            *[Ended(t=at, **span, end_row=5, how="finished", adopted=True)] * adopted,
            Lost(t=at, walker=0, cause="its driver died"),
            Hired(t=at, walker=1, slot=0), Start(t=at, start=1, seed=1),
            Began(t=at + 1.0, walker=1, segment=0, start=1, first_row=0),
        ]:  # fmt: skip
            state.apply(record)
        return shares(state, at + 9.0)

    assert resumed(3600.0) == pytest.approx(resumed(0.5))


@pytest.mark.parametrize("begun", [True, False])
def test_the_time_of_a_segment_that_was_lost_is_that_of_a_simulation(begun: bool) -> None:
    """One looks for what hangs where it hangs."""
    state = State([Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0), Start(t=1.0, start=0, seed=0)])
    if begun:
        state.apply(Began(t=2.0, walker=0, segment=0, start=0, first_row=0))
    state.apply(Lost(t=12.0, walker=0, cause="killed"))
    assert shares(state, 12.0)[SIMULATING] == pytest.approx(10 / 11 if begun else 0)


@pytest.mark.parametrize("left", [True, False])
def test_a_walker_that_waits_for_the_last_training_waits(left: bool) -> None:
    """It says how long it waited when it begins the next segment, and there is none."""
    span: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    state = State([
        Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0), Start(t=1.0, start=0, seed=0),
        Began(t=2.0, **span), Ended(t=4.0, **span, end_row=5, how="finished", ran_s=2.0),
        Published(t=5.0, walker=0, frames=5, segments=1), *[Left(t=21.0, walker=0, reason="")] * left,
    ])  # fmt: skip
    assert shares(state, 21.0) == pytest.approx(
        {STARTING: 0.05, SIMULATING: 0.1, OTHER: 0.05, WAITING: 0.8, READING: 0}
    )


@pytest.mark.parametrize("over", [True, False])
def test_a_pause_is_no_waiting(over: bool) -> None:
    """The first walker waits for 6 s, of them 4 paused; the second simulates all the while; a pause costs no other."""
    a, b = (dict[str, Any](walker=walker, segment=0, start=walker, first_row=0) for walker in (0, 1))
    state = State([
        Session(t=1.0, host="here", pid=1), *[Hired(t=1.0, walker=each, slot=each) for each in (0, 1)],
        *[Start(t=1.0, start=each, seed=0) for each in (0, 1, 2)], Began(t=1.0, **a), Began(t=1.0, **b),
        Ended(t=5.0, **a, end_row=5, how="finished", ran_s=4.0), Tell(t=6.0, id="1", who="ada", verb="pause", text=""),
    ])  # fmt: skip
    if over:
        state.apply(Tell(t=10.0, id="2", who="ada", verb="continue", text=""))
        state.apply(Began(t=11.0, walker=0, segment=1, start=2, first_row=5, waited_s=6.0))
    found = shares(state, 11.0 if over else 10.0)
    assert found[PAUSED] == pytest.approx(4 / (20 if over else 18))
    assert found[WAITING] == pytest.approx((2 if over else 1) / (20 if over else 18))
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("said", [*permutations(["blame", "publish", "lose"])])
def test_frames_of_a_start_that_is_given_up_count_as_far_as_they_are_published(said: tuple[str, ...]) -> None:
    """Whatever comes first: that it is given up, the rest of its frames, or the loss of its walker."""
    start: dict[str, Any] = {"start": 0}
    segment: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    words: dict[str, Record] = {
        "blame": Blame(**start, reason="it failed"),
        "publish": Published(walker=0, frames=5, segments=1),
        "lose": Lost(walker=0, cause="killed", keep=True),
    }
    state = State([
        Hired(walker=0, slot=0), Start(**start, seed=0), Began(**segment),
        Published(walker=0, frames=3, segments=0, simulated=3.0),
        Ended(**segment, end_row=5, how="failed", simulated=5.0),
    ])  # fmt: skip
    lost = False
    for word in said:
        if word == "publish" and lost:
            continue
        state.apply(words[word])
        lost |= word == "lose"
    assert state.frames == state.simulated == (3 if said.index("lose") < said.index("publish") else 5)
    assert said.index("blame") > said.index("lose") or not (state.starts or state.broken), "it is not run again"


@st.composite
def stories(draw: st.DrawFn) -> list[Record]:
    """What up to three walkers say, in the order of each, mixed; a frame is one unit of time.

    They may run the same start, publish late or never, and be lost at any point.
    """
    told = [_of_walker(draw, walker) for walker in range(draw(st.integers(1, 3)))]
    order = draw(st.permutations([walker for walker, events in enumerate(told) for _ in events]))
    queues = [iter(events) for events in told]
    starts: list[Record] = [Start(start=start, seed=start) for start in range(4)]
    return starts + [Hired(walker=walker, slot=0) for walker in range(len(told))] + [next(queues[w]) for w in order]


def _of_walker(draw: st.DrawFn, walker: int) -> list[Record]:
    said: list[Record] = []
    first = 0
    for segment in range(draw(st.integers(0, 3))):
        start, frames = draw(st.integers(0, 3)), draw(st.integers(0, 4))
        said.append(Began(walker=walker, segment=segment, start=start, first_row=first))
        for part in sorted(draw(st.sets(st.integers(0, frames), max_size=2))):
            said.append(Published(walker=walker, frames=first + part, segments=segment, simulated=float(part)))
        how = draw(st.sampled_from(["finished", "stopped", "failed"]))
        end = first + frames
        ended: dict[str, Any] = {
            "walker": walker,
            "segment": segment,
            "start": start,
            "first_row": first,
            "end_row": end,
        }
        said.append(Ended(**ended, how=how, simulated=float(frames)))
        if how == "failed" and draw(st.booleans()):
            said.append(Blame(start=start, reason="it failed"))
        if draw(st.booleans()):
            said.append(Published(walker=walker, frames=end, segments=segment + 1))
        first = end
    if draw(st.booleans()):
        said = said[: draw(st.integers(0, len(said)))]
        said.append(Lost(walker=walker, cause="killed", keep=draw(st.booleans()), blame=draw(st.booleans())))
    return said


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(stories())
def test_time_is_simulated_once_for_each_frame_that_counts(story: list[Record]) -> None:
    """Of running, ended and lost segments, whichever of two runs of a start came first, after every record."""
    state = State()
    for record in story:
        state.apply(record)
        assert state.simulated == state.frames
    assert State(story).simulated == state.simulated


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(stories())
def test_what_is_counted_is_how_the_segments_ended(story: list[Record]) -> None:
    """Also of one that ended well and was lost with its walker before it was published; after every record."""
    state = State()
    for record in story:
        state.apply(record)
        assert state.ended == Counter(each.how for each in state.segments if each.end is not None)


@settings(max_examples=100, deadline=None)
@given(stories())
def test_a_lost_segment_of_the_table_simulated_what_its_frames_did(story: list[Record]) -> None:
    """Whether or not its walker had said that it ended."""
    with TemporaryDirectory() as folder:
        directory = run_directory.create(Path(folder), "x", Path(folder) / "run")
        journal = Journal(directory.journal)
        journal.append(Run(workflow="x", seed=1, slots=1))
        for record in story:
            journal.append(record)
        journal.close()
        segments = History(directory).segments
    lost = segments.how == "lost"
    assert (segments.simulated[lost] == (segments.end - segments.first)[lost]).all()


@given(st.lists(st.integers(0, 50), unique=True, min_size=1))
def test_the_next_walker_has_a_number_that_none_had(hired: list[int]) -> None:
    """Also where numbers have holes, as after the end of a journal was lost with its machine."""
    state = State([Hired(walker=number, slot=0) for number in hired])
    assert state.next_walker == max(hired) + 1


@pytest.mark.parametrize(("unit", "seconds"), [("ps", 1e-12), ("picosecond", 1e-12), ("days", 86400.0), ("1", None)])
def test_simulated_seconds_are_those_of_the_runs_unit_or_not_known(unit: str, seconds: float | None) -> None:
    state = State()
    made: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    ended = Ended(**made, end_row=3, how="finished", simulated=7.0)
    for record in (
        Run(time_unit=unit), Hired(walker=0, slot=0), Start(start=0, seed=0), Began(**made), ended,
        Published(walker=0, frames=3, segments=1),
    ):  # fmt: skip
        state.apply(record)
    assert state.simulated == 7.0
    for progress in (state.progress(0.0), state.whole[1]):
        assert progress.simulated_s == pytest.approx(float("nan") if seconds is None else 7.0 * seconds, nan_ok=True)


@pytest.mark.parametrize("outcome", ["budget", "goal", "interrupted"])
def test_a_run_that_lost_frames_is_not_finished_any_more(outcome: str) -> None:
    """Its budget has room again; `resume` goes on with it, as `verify --repair` says."""
    told = Tell(t=1.0, id="1", who="ada", verb="finish", text="")
    state = State([Hired(walker=0, slot=0), told, End(outcome=outcome, reason="there")])
    state.apply(Damaged(walker=0, reason="a byte was changed"))
    assert not state.finished
    assert bool(state.wishes.finish) == (outcome == "interrupted"), (
        "what ended may have more to do, though told to finish"
    )
    state.apply(End(outcome="budget", reason="again"))
    assert state.finished
