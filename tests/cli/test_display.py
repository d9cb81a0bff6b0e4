"""What a terminal shows of a state."""

import errno
import functools
import io
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from steersman.analysis.comparison.campaigns import Tally
from steersman.cli.display import LOG_BESIDE_S, Beside, Display, closing, line, view
from steersman.data import why
from steersman.data.facts import facts
from steersman.data.overview import Overview, overview
from steersman.journal.file import Journal
from steersman.journal.records import (
    Began,
    Blame,
    Called,
    End,
    Ended,
    Hired,
    Joined,
    Lost,
    Note,
    Published,
    Run,
    Session,
    Stage,
    Start,
    Task,
    Tell,
    Trained,
    Training,
)
from steersman.journal.segments import Segment
from steersman.journal.state import State
from steersman.steering import Novelty, Opes, Steering, StopRule, Unsteered, Unsure, budget, reached
from steersman.steering.decide import CHOSE_NONE, PUSHED_NONE

TEXT = "bus: [/tmp/run] refused [red]what[/] it was given"


def seen(state: State, now: float, rule: StopRule | None = None) -> Overview:
    return overview(state, Path(), rule=rule, now=now, driven_here=True)


@pytest.fixture
def state() -> State:
    return State([
        Run(t=1.0, workflow="x", seed=1, slots=1),
        Session(t=2.0, host="here", pid=1),
        Note(t=3.0, text="of an earlier session"),
        Note(t=time.time() + 60, text=TEXT),
    ])  # fmt: skip


def test_words_of_others_are_shown_as_they_are(state: State) -> None:
    """A path or an exception may look like markup."""
    console = Console(file=io.StringIO(), width=120)
    console.print(view(state, seen(state, 5.0, budget(frames=10)), "x"))
    assert TEXT in console.file.getvalue()  # type: ignore[attr-defined]


def test_it_is_told_how_many_walkers_have_started_until_all_have(state: State) -> None:
    """Before the first is asked for, and of a run that is resumed, whose earlier walkers are gone."""

    def told() -> bool:
        console = Console(file=io.StringIO(), width=120)
        console.print(view(state, seen(state, 5.0, budget(frames=10)), "x"))
        shown = "0 of 1 have started"
        assert (shown in console.file.getvalue()) == (shown in line(seen(state, 5.0, budget(frames=10))))  # type: ignore[attr-defined]
        return f"walkers: {shown}" in line(seen(state, 5.0, budget(frames=10)))

    for session in range(2):
        if session:
            state.apply(Lost(t=8.0, walker=0, cause="its driver died", keep=True))
            state.apply(Session(t=9.0, host="here", pid=2))
        assert told()
        assert "prepare() comes first" in line(seen(state, 5.0, budget(frames=10)))
        state.apply(Hired(t=10.0 * session + 3, walker=session, slot=0))
        assert told()
        assert "prepare()" not in line(seen(state, 5.0, budget(frames=10)))
        state.apply(Joined(t=10.0 * session + 4, walker=session, node="n", pid=1, pool="p"))
        assert not told()


def test_while_calls_are_awaited_no_walker_is_and_the_line_says_how_they_stand(state: State) -> None:
    """Before the loop, or where a mended file has only what comes after it made anew."""
    state.apply(Called(t=5.0, call="a" * 64, task="count"))
    state.apply(Called(t=5.0, call="b" * 64, task="share", needs=("a" * 64,)))
    said = line(seen(state, 6.0, budget(frames=10)))
    assert "walkers" not in said
    assert said.startswith("tasks: 1 begun 1 waiting")
    for key in "ab":
        state.apply(Task(t=7.0, call=key * 64, sha256="c"))
    assert "tasks" not in line(seen(state, 8.0, budget(frames=10)))


def test_a_log_tells_each_note_once(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    display = Display("x")
    for now in (100.0, 200.0):
        display.show(state, functools.partial(seen, state, now, budget(frames=10)), now)
    assert capsys.readouterr().err.count(TEXT) == 1


@pytest.mark.parametrize(
    "error", [BrokenPipeError(errno.EPIPE, "nobody reads"), OSError(errno.EIO, "a terminal that went")]
)
def test_a_campaign_goes_on_when_nobody_reads_what_it_tells(
    state: State, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    monkeypatch.setattr(sys, "stderr", Gone())
    display = Display("x")
    with display.live():
        for now in (100.0, 200.0):
            display.show(state, functools.partial(seen, state, now, budget(frames=10)), now)
    assert display.console.quiet


def test_no_time_is_left_while_a_run_is_paused_and_nobody_pauses_one_that_has_ended(state: State) -> None:
    rule, now = budget(hours=1e6), 20.0
    assert line(seen(state, now, rule)).endswith(" left")
    state.apply(Tell(t=5.0, id="1", who="me", verb="pause", text="pause"))
    paused, console = seen(state, now, rule), Console(file=io.StringIO(), width=120)
    console.print(view(state, paused, "x"))
    assert (paused.paused_by, paused.budget.left_s) == ("me", None)
    for shown in (line(paused), console.file.getvalue()):  # type: ignore[attr-defined]
        assert "PAUSED" in shown
        assert " left" not in shown
    state.apply(End(t=6.0, outcome="interrupted", reason="a key"))
    assert seen(state, now, rule).paused_by is None
    assert "PAUSED" not in line(seen(state, now, rule))


def test_a_pause_slows_no_rate_and_spends_hours(state: State) -> None:
    """Of 60 s, 40 were a pause: 20 s brought 40 of 100 frames, so the others take 30 s."""
    for t, verb in ((10.0, "pause"), (50.0, "continue")):
        state.apply(Tell(t=t, id=verb, who="me", verb=verb, text=verb))
    assert state.wishes.paused_hours == pytest.approx(40 / 3600)
    state.apply(Hired(t=51.0, walker=0, slot=0))
    state.apply(Published(t=62.0, walker=0, frames=40, segments=0))
    for rule, left_s in (
        (budget(frames=100), 30),
        (budget(hours=100 / 3600), 40),
        (budget(frames=100, hours=80 / 3600), 20),
    ):
        assert seen(state, 62.0, rule).budget.left_s == pytest.approx(left_s)
    assert seen(state, 62.0, reached("x", 1.0)).budget.left_s is None


@pytest.mark.parametrize("told", [True, False], ids=["told", "by itself"])
def test_the_time_left_is_at_the_pace_of_late(told: bool) -> None:
    """1,000 s at 10 frames a second, then 1,000 s at one: 9,000 of 20,000 are left, and 100 of 200 simulated days are,
    as a frame stands for more of them now. A word that changed it is seen at once; else half of the time has to pass.
    """
    state = State([Run(t=0.0, time_unit="day"), Session(t=0.0, host="here", pid=1), Hired(t=0.0, walker=0, slot=0)])
    for t in range(1, 2001):
        if told and t == 1001:
            state.apply(Tell(t=1000.5, id="1", who="me", verb="set", text="set", settings={"delay": 1.0}))
        frames = 10 * min(t, 1000) + max(0, t - 1000)
        state.apply(Published(t=float(t), walker=0, frames=frames, segments=0, simulated=t / 20))
        if t in (1010, 1990):
            left = 20_000 - frames
            by_frames = seen(state, float(t), budget(frames=20_000)).budget.left_s
            assert (by_frames == pytest.approx(left, rel=0.06)) == (told or t > 1010)
            assert seen(state, float(t), budget(sim_days=200)).budget.left_s == pytest.approx(
                20 * (200 - t / 20), rel=0.06
            )


@pytest.mark.parametrize(
    ("rule", "sure"),
    [
        (budget(hours=1), True),
        (budget(hours=1) | budget(frames=9**9), True),
        (budget(hours=1) | reached("x", 1), False),
    ],
)
def test_the_time_left_is_at_most_the_budgets_where_a_goal_may_be_reached_before(rule: StopRule, sure: bool) -> None:
    state = State([Run(t=0.0), Session(t=0.0, host="here", pid=1), Note(t=300.0, text="five minutes of an hour")])
    shown = seen(state, 300.0, rule)
    assert shown.budget.left_s == pytest.approx(3300)
    assert shown.budget.spends is sure
    assert ("at most" in line(shown)) is not sure


def test_a_spent_budget_tells_what_is_waited_for(state: State) -> None:
    """The last training ends before the run does."""
    rule, now = budget(hours=0.001), 3600.0
    assert line(seen(state, now, rule)).endswith("100 % of the budget, the run is to end")
    state.apply(Training(t=5.0, model=1, frames=10))
    assert line(seen(state, now, rule)).endswith("100 % of the budget, model 1 is being trained")


def test_wall_time_goes_on_while_nothing_is_recorded(state: State) -> None:
    """Until the end of the run, however late one looks; a budget of hours is spent by waiting, too."""
    state.apply(Note(t=4.0, text="the last for an hour"))
    assert state.hours(3602.0) == 1.0
    assert not budget(hours=1).reason(state.progress(3601.0))
    assert budget(hours=1).reason(state.progress(3602.0))
    state.apply(End(t=12.0, outcome="finished", reason="by a person"))
    assert state.hours(3602.0) == 10.0 / 3600


def test_gpu_hours_are_those_of_the_gpus_that_each_session_held(state: State) -> None:
    """A run that moves to a site without GPUs, and to one with more slots."""
    for t, gpus, slots in ((3600.0, 2, 2), (7200.0, 0, 3)):
        state.apply(Session(t=t, host="here", pid=1, after=t, gpus=gpus, slots=slots))
    began = 3600 * state.clocks(10800.0)[0, 1]
    assert state.gpu_hours(10800.0) == pytest.approx(2.0 + state.run.gpus * began / 3600)
    assert state.slots == 3


def test_the_closing_table_tells_who_chose_starts_and_what_idle_slots_did(state: State) -> None:
    """And what was noted last; nothing of models where none was trained."""
    state.apply(Hired(t=4.0, walker=0, slot=0))
    state.walkers[0].seconds.update({"waited": 5.0, "read": 1.0, "ran": 12.0})
    state.walkers[0].segments.append(Segment(0, 0, 0, 0, end=1))
    state.walkers[0].seconds["started"], state.walkers[0].heard = 2.0, 24.0
    for number, policy in enumerate(["prepared", "Novelty", "Novelty", "explore"]):
        state.apply(Start(t=5.0, start=number, seed=0, policy=policy))
    console = Console(file=io.StringIO(), width=120)
    console.print(closing(seen(state, 24.0)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Novelty 50 %" in shown
    assert "40.0 %" in shown
    assert TEXT in shown
    assert "models" not in shown


def test_the_closing_table_says_why_the_newest_model_was_not_accepted_or_not_judged(state: State) -> None:
    for version, accepted, held_out in ((1, True, 0.5), (2, False, 0.6), (3, True, None)):
        state.apply(Training(t=4.0, model=version, frames=100))
        state.apply(Trained(t=5.0, model=version, accepted=accepted, held_out=held_out, reason=f"reason {version}"))
        told = facts(seen(state, 5.0))["models"]
        assert (f"reason {version}" in told) == (held_out != 0.5)
        assert ("unjudged" in told) == (held_out is None)
    only = State()
    for version in (1, 2):
        only.apply(Training(t=4.0, model=version, frames=100))
        only.apply(Trained(t=5.0, model=version, accepted=True, reason="no score"))
    assert facts(seen(only, 5.0))["models"] == "2 accepted of 2; each was taken unjudged: no score"
    state.scored_with = 7
    assert "model 7" in facts(seen(state, 5.0))["models"]


@pytest.mark.parametrize("failures", [1, 1200])
def test_the_closing_table_tells_a_cause_once(state: State, failures: int) -> None:
    for _ in range(failures):
        state.apply(Stage(t=4.0, stage="score", ok=False, cause="KeyError: 'q'"))
    told = facts(seen(state, 5.0))
    assert [name for name, value in told.items() if "KeyError: 'q'" in value] == ["fails"]
    assert ("1,200 times" in told["fails"], " times" in told["fails"]) == (failures > 1, failures > 1)
    state.apply(Stage(t=4.0, stage="score", ok=True))
    state.apply(Note(t=5.0, text="something else"))
    assert facts(seen(state, 5.0))["last note"] == "something else"


def test_the_closing_table_of_a_run_whose_segments_all_failed_leaves_the_cause_to_its_end(state: State) -> None:
    span: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    for record in (
        Hired(t=5.0, walker=0, slot=0), Start(t=5.0, start=0, seed=1), Began(t=5.0, **span),
        Ended(t=6.0, **span, end_row=0, how="failed", cause="KeyError: 'q'"),
        Blame(t=7.0, start=0, reason="start 0 is given up: its segments failed 3 times: KeyError: 'q'"),
    ):  # fmt: skip
        state.apply(record)
    assert "KeyError" in facts(seen(state, 7.0))["last note"]
    state.apply(End(t=8.0, outcome="failed", reason="every segment failed: KeyError: 'q'"))
    assert "last note" not in facts(seen(state, 8.0))


def test_the_closing_table_tells_why_segments_failed_although_they_left_frames(state: State) -> None:
    """The budget was spent all the same, and nothing was given up."""
    span: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    for record in (
        Hired(t=5.0, walker=0, slot=0), Start(t=5.0, start=0, seed=1), Began(t=5.0, **span),
        Ended(t=6.0, **span, end_row=9, how="failed", cause="CommandFailed: melt ended with code 3:\nno potential"),
        End(t=8.0, outcome="budget", reason="the budget of 9 frames is spent"),
    ):  # fmt: skip
        state.apply(record)
    assert "code 3" in facts(seen(state, 8.0))["last failure"]


@pytest.mark.parametrize(("number", "shown"), [(1, "1 frame"), (8421, "8,421 frames")])
def test_why_counts_frames_as_status_does(number: int, shown: str) -> None:
    told: dict[str, Any] = dict.fromkeys(("segment", "policy", "reason", "ended", "cause", "stopped_by"), "") | {
        "start": 0, "seed": 1, "parent": None, "model": 0, "candidates": number, "attempt": 0, "frames": number,
        "refused": [],
        "draw": {"m": 0.5},
        "with_model": 0,
        "bias": 0,
        "hot": 0, "repeats": True, "condition": {},
        "share": 1.0,
    }  # fmt: skip
    text = "\n".join(why.lines(told))
    assert len(re.findall(rf" {shown}\b", text)) == 2
    assert "m=0.5" in text


def test_a_run_that_never_had_a_model_ends_with_the_cause(state: State) -> None:
    why = "the training failed: ValueError: frames[0] is [odd]"
    for version, reason in ((1, "another"), (2, why)):
        state.apply(Training(t=4.0, model=version, frames=9))
        state.apply(Trained(t=5.0, model=version, accepted=False, reason=reason))
    console = Console(file=io.StringIO(), width=120)
    console.print(closing(seen(state, state.now)))
    assert why in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_no_column_is_broken_into_pieces_of_words_on_a_narrow_terminal(state: State, width: int) -> None:
    """60 columns hold what slots do, and a model with a long reason."""
    reason = "the training failed: RuntimeError: Input type (float) and bias type (double) should be the same"
    found = (
        Hired(t=5.0, walker=10, slot=10),
        Training(t=5.0, model=1, frames=123_456),
        Trained(t=6.0, model=1, accepted=False, reason=reason, frames=123_456),
    )
    for record in found:
        state.apply(record)
    console = Console(file=io.StringIO(), width=width)
    console.print(view(state, seen(state, 7.0, budget(frames=10)), "x"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\u2026" not in text
    assert " ".join(text.replace("\u2502", " ").split()).count(reason) == 1
    for word in ("slots", "waits for a worker", "segments", "frames", "0 accepted of 1"):
        assert word in text


def test_a_budget_without_scores_is_blamed_only_where_they_would_have_come(state: State) -> None:
    def unused(steering: Steering) -> str:
        return steering.unused(state.chosen, weighs=False, rounds=False)

    steering = Steering(Novelty("z"))
    assert unused(steering) == unused(Steering(Unsure("doubt", 2))) == CHOSE_NONE
    state.apply(Start(t=5.0, start=0, seed=1, policy="Novelty"))
    assert unused(steering) == unused(Steering(Unsteered())) == ""
    assert unused(Steering(Unsteered(), bias=Opes("z", barrier_kT=9.0))) == PUSHED_NONE


def test_campaigns_beside_each_other_are_a_line_each_and_no_oftener_than_it_can_be_read(tmp_path: Path) -> None:
    said: list[list[str]] = []
    runs = {str(tmp_path / name): (f"Novelty, seed {name}", budget(frames=100)) for name in "abc"}
    now = 0.0
    shown = Beside(lambda text: said.append(text.splitlines()), lambda: now)
    shown.show(Tally(0, list(runs)[:2], runs))
    (tmp_path / "b").mkdir()
    journal = Journal(tmp_path / "b" / "journal.jsonl")
    journal.append(Run(workflow="x", seed=1, slots=1), Session(host="h", pid=1), Hired(walker=0, slot=0))
    journal.append(Published(walker=0, frames=25, segments=0))
    journal.close()
    now = LOG_BESIDE_S / 2
    shown.show(Tally(0, list(runs)[:2], runs))
    assert len(said) == 1
    now = LOG_BESIDE_S
    shown.show(Tally(0, list(runs)[:2], runs))
    shown.show(Tally(1, list(runs)[1:], runs))
    assert said[0] == ["0 of 3 campaigns are done", "  Novelty, seed a: starts", "  Novelty, seed b: starts"]
    (_, first, second), (done, *_) = said[1:]
    assert (first, done) == ("  Novelty, seed a: starts", "1 of 3 campaigns are done")
    assert second.startswith("  Novelty, seed b: ")
    assert "25 frames" in second
    assert "25 % of" in second
