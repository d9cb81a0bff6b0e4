"""When a run that fails ends, and when it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steersman.engine import ending
from steersman.journal.records import (
    Began,
    Ended,
    Hired,
    Joined,
    Left,
    Lost,
    Metrics,
    Note,
    Published,
    Record,
    Run,
    Session,
    Stage,
    Start,
    Tell,
    Trained,
    Training,
)
from steersman.journal.state import State
from steersman.steering import StopRule, budget, reached
from steersman.steering.protocols import Progress

MOST = 20
FRAMES = budget(frames=1000)
BOUNDS = {"score": MOST, "metric coverage": MOST}


def failed(*worked: bool, stage: str = "score") -> bool:
    """Whether a run ends whose stage worked or failed so."""
    state = State(Stage(t=1.0, stage=stage, ok=ok, cause="KeyError: 'x'") for ok in worked)
    end = ending.failed(state, FRAMES, 2, 1, BOUNDS, Path("errors"))
    assert end is None or (end.outcome, "KeyError: 'x'" in end.reason) == ("failed", True)
    return end is not None


@pytest.mark.parametrize("stage", BOUNDS)
def test_a_stage_that_never_worked_ends_the_run_soon_and_one_that_did_late(stage: str) -> None:
    """After three failures, or after as many in a row as the workflow allows."""
    assert not failed(False, False, stage=stage)
    assert failed(False, False, False, stage=stage)
    assert not failed(True, *[False] * (MOST - 1), stage=stage)
    assert failed(True, *[False] * MOST, stage=stage)
    assert not failed(True, *[False] * (MOST - 1), True, *[False] * (MOST - 1), stage=stage)


@pytest.mark.parametrize(("first", "ends"), [("finished", False), ("stopped", False), ("failed", True)])
def test_failures_in_a_row_end_a_run_unless_a_segment_has_ended_well(first: str, ends: bool) -> None:
    """One that steering stopped has, too: a workflow may stop them all."""
    story: list[Record] = [Hired(t=1.0, walker=0, slot=0)]
    for number, how in enumerate([first, *["failed"] * 9]):
        story += [
            Began(t=1.0, walker=0, segment=number, start=number, first_row=number),
            Ended(t=1.0, walker=0, segment=number, start=number, first_row=number, end_row=number + 1, how=how),
        ]
    assert (ending.failed(State(story), FRAMES, 1, 1, {}, Path("errors")) is not None) == ends


@pytest.mark.parametrize(("failures", "lasts", "ends"), [(179, False, False), (180, False, True), (300, True, False)])
def test_a_run_ends_in_which_nothing_ends_well_any_more(failures: int, lasts: bool, ends: bool) -> None:
    """A licence server is gone, say; but not while another segment lasts, nor before it is tried in a new session."""
    story: list[Record] = [Hired(t=1.0, walker=0, slot=0), Hired(t=1.0, walker=1, slot=1)]
    story += [Began(t=2.0, walker=1, segment=0, start=0, first_row=0)] if lasts else []
    for number, how in enumerate(["finished", *["failed"] * failures]):
        made: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number}
        story += [Began(t=3.0, **made), Ended(t=4.0, **made, end_row=number + 1, how=how)]
    state = State(story)
    assert (ending.failed(state, FRAMES, 2, 1, {}, Path("errors")) is not None) == ends
    state.apply(Session(t=5.0, host="here", pid=1))
    assert ending.failed(state, FRAMES, 2, 1, {}, Path("errors")) is None


@pytest.mark.parametrize(("failures", "ends"), [(5, False), (6, True)])
def test_a_run_whose_parameters_a_person_made_impossible_ends_soon(failures: int, ends: bool) -> None:
    """However many segments had ended well before."""
    story: list[Record] = [Hired(t=1.0, walker=0, slot=0)]
    for number, how in enumerate(["finished"] * 9 + ["failed"] * failures):
        made: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number}
        if number == 9:
            story.append(Tell(t=3.0, id="a", who="me", verb="set", text="", settings={"steps": 0}))
        story += [Began(t=3.0, **made), Ended(t=4.0, **made, end_row=number + 1, how=how)]
    assert (ending.failed(State(story), FRAMES, 1, 1, {}, Path("errors")) is not None) == ends


@pytest.mark.parametrize(("simulated", "published", "ends"), [(0.0, 9, True), (0.5, 9, False), (0.5, 0, False)])
def test_a_budget_of_simulated_time_without_a_time_ends_the_run(simulated: float, published: int, ends: bool) -> None:
    """It would never be spent; a budget of frames is. Quick segments end before their frames are published."""
    story: list[Record] = [Run(t=1.0, time_unit="d"), Hired(t=1.0, walker=0, slot=0)]
    for number in range(9):
        tried: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number}
        story += [Start(t=1.0, start=number, seed=1), Began(t=1.0, **tried)]
        story += [Ended(t=1.0, **tried, end_row=number + 1, how="finished", simulated=simulated)]
        story += [Published(t=1.0, walker=0, frames=number + 1, segments=number + 1)] if number < published else []
    state = State(story)
    assert (ending.failed(state, budget(sim_days=3), 1, 1, {}, Path("errors")) is not None) == ends
    assert ending.failed(state, FRAMES, 1, 1, {}, Path("errors")) is None


def failing(places: str, nodes: int) -> list[bool]:
    """Whether a run of two slots and so many nodes ends, after each walker: slot and node of them, each fails thrice.

    Each is replaced before the next begins, so that one that has not tried is always there.
    """
    state, ends = State([Session(t=1.0, host="here", pid=1)]), []
    for number, place in enumerate(places.split()):
        slot = int(place[0])
        state.apply(Hired(t=1.0, walker=number, slot=slot))
        state.apply(Joined(t=1.0, walker=number, node=place[1]))
        for segment in range(3):
            tried: dict[str, Any] = {"walker": number, "segment": segment, "start": segment, "first_row": 0}
            state.apply(Began(t=1.0, **tried))
            state.apply(Ended(t=1.0, **tried, end_row=0, how="failed", cause="KeyError: 'x'"))
        state.apply(Left(t=1.0, walker=number, reason="it failed again and again"))
        state.apply(Hired(t=1.0, walker=number + 1, slot=slot))
        ends.append(ending.failed(state, FRAMES, 2, nodes, {}, Path("errors")) is not None)
    return ends


@pytest.mark.parametrize(
    ("places", "nodes", "ends_after"),
    [("0a 1a 0a", 1, 2), ("0a 0a 0a 0a 0a 1a 0a", 1, 6), ("0a 1a 0a 1a 0a 1a 0b 0a", 2, 7), ("0a 1a " * 31, 2, 60)],
    ids=["all", "one slot is slow", "one node comes late", "one node never comes"],
)
def test_a_run_whose_segments_all_fail_ends_once_every_slot_and_node_has_tried(
    places: str, nodes: int, ends_after: int
) -> None:
    """A broken process or node may be the first to come. Walkers that fail are replaced; their slot has tried."""
    assert failing(places, nodes).index(True) + 1 == ends_after


@pytest.mark.parametrize(("worked", "outcome"), [((False,), "failed"), ((False, True), "budget"), ((), "budget")])
def test_a_budget_that_is_spent_while_a_stage_never_worked_was_spent_for_nothing(
    worked: tuple[bool, ...], outcome: str
) -> None:
    story = [
        Session(t=1.0, host="here", pid=1),
        *(Stage(t=1.0, stage="train", ok=ok, cause="" if ok else "KeyError: 'x'") for ok in worked),
    ]
    end = ending.met(State(story), budget(hours=0.01), now=100.0)
    assert end is not None
    assert (end.outcome, "KeyError" in end.reason) == (outcome, outcome == "failed")


@pytest.mark.parametrize("lost", [Note(text="m is nan", metric="m"), Stage(stage="metric m", ok=False, cause="no")])
def test_a_goal_is_reached_by_the_value_that_its_metric_has_now(lost: Record) -> None:
    story: list[Record] = [Session(t=1.0, host="here", pid=1), Metrics(t=1.0, values={"m": 2.0})]
    rule = reached("m", 1) & budget(hours=0.01)
    end = ending.met(State(story), rule, now=100.0)
    assert end is not None
    assert end.outcome == "goal"
    assert ending.met(State([*story, lost]), rule, now=100.0) is None


def test_a_rule_whose_reason_is_no_text_ends_the_run_with_words() -> None:
    class Odd(StopRule):
        def reason(self, progress: Progress) -> Any:
            return True

    end = ending.met(State(), Odd(), now=0.0)
    assert end is not None
    assert (end.outcome, type(end.reason)) == ("failed", str)


def test_a_metric_that_nothing_waits_for_ends_no_run() -> None:
    assert not failed(*[False] * 100, stage="metric spread")


def foreseen(
    frames: int,
    *,
    segments: int,
    draws: int = 0,
    first: int = 100,
    trained: int = 0,
    rounds: bool = False,
) -> str:
    """What is foretold of a run with a budget of frames, whose segments had three each."""
    story: list[Record] = [Run(rounds=rounds), Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0)]
    for number in range(segments):
        made: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": 3 * number}
        story += [Start(t=1.0, start=number, seed=number, slot=0), Began(t=1.0, **made)]
        story.append(Ended(t=1.0, **made, end_row=3 * number + 3, how="finished"))
        story.append(Published(t=1.0, walker=0, frames=3 * number + 3, segments=number + 1))
    for model in range(1, trained + 1):
        story += [Trained(t=1.0, model=model - 1, accepted=False, reason="")] * (model > 1)
        story.append(Training(t=1.0, model=model, frames=3 * segments))
    limits = {"frames": frames} if frames else {"hours": 1.0}
    return ending.without_model(State(story), budget(**limits), first, draws, 2.0)


def test_nothing_is_foretold_by_frames_of_a_first_segment_whose_walker_was_lost() -> None:
    story: list[Record] = [Run(), Session(t=1.0, host="here", pid=1), Hired(t=1.0, walker=0, slot=0)]
    story += [Start(t=1.0, start=0, seed=0), Began(t=1.0, walker=0, segment=0, start=0, first_row=0)]
    story += [Published(t=1.0, walker=0, frames=5, segments=0), Lost(t=2.0, walker=0, cause="", keep=True)]
    state = State(story)
    assert state.whole[1].frames == 5
    assert ending.without_model(state, budget(frames=90), 100, 0, 2.0) == ""
    assert ending.room(state, budget(frames=90)) > 0


def test_a_budget_that_ends_before_the_first_model_is_foretold() -> None:
    """144 frames, of which 16 segments of 3 are held out, are 96 that a model can be trained on."""
    assert "96 are not" in foreseen(144, segments=2, draws=16)
    assert foreseen(148, segments=2, draws=16) == ""
    assert foreseen(99, segments=2) != ""
    assert foreseen(99, segments=0) == "", "nothing is known yet"
    assert foreseen(0, segments=2) == "", "a budget of hours alone says nothing of frames"
    assert foreseen(300, segments=49, trained=1) == ""
    assert foreseen(300, segments=50, trained=1).startswith("half of the budget")
    assert "first" not in foreseen(300, segments=50, trained=2), "one was not used"
    assert foreseen(300, segments=50, trained=1, rounds=True) == "", "in rounds walkers wait for it"
