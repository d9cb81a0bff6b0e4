"""When a run that fails ends, and when it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.engine import ending
from steersman.journal.records import Began, Ended, Hired, Record, Session, Stage
from steersman.journal.state import State
from steersman.steering import budget

MOST = 20
BOUNDS = {"score": MOST, "metric coverage": MOST}


def failed(*worked: bool, stage: str = "score") -> bool:
    """Whether a run ends whose stage worked or failed so."""
    state = State(Stage(t=1.0, stage=stage, ok=ok, cause="KeyError: 'x'") for ok in worked)
    end = ending.failed(state, 2, BOUNDS, Path("errors"))
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
    assert (ending.failed(State(story), 1, {}, Path("errors")) is not None) == ends


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


def test_a_metric_that_nothing_waits_for_ends_no_run() -> None:
    assert not failed(*[False] * 100, stage="metric spread")
