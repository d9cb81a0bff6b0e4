"""Starts that fail: tried again, on another walker before they are blamed; and renewed when a parameter is set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from steersman.bus import ALL, Server, TupleSpace
from steersman.engine.bag import LOOK_S, Bag
from steersman.engine.crew import Crew
from steersman.journal.file import Journal
from steersman.journal.modes.biases import Biases
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.recorder import Recorder
from steersman.journal.records import (
    Began,
    Biased,
    Damaged,
    Ended,
    FrameId,
    Hired,
    Joined,
    Note,
    Published,
    Scored,
    Start,
    Tell,
    words,
)
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import unscored
from steersman.journal.state import State
from steersman.steering import Candidate, Novelty, Policy, Scores, Steering, Unsteered, WeightedEnsemble
from steersman.worker.orders import START
from tests.engine.bags import Jobs, bag_of, fail, waiting


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


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_in_rounds_starts_are_tried_again_in_their_order_whenever_each_failed(
    order: tuple[int, int], recorder: Recorder, space: TupleSpace
) -> None:
    """Their numbers decide seeds: of two that fail in one round neither goes before the other by chance."""
    decisions = recorder.journal.path.parent / "decisions.jsonl"
    bag = Bag(recorder, space, Steering(), decisions, seed=1, rounds=True)
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(3)])
    recorder.record_all([Start(start=number, seed=1, slot=number) for number in range(3)])
    for number in order:
        fail(recorder, number, number)
        bag.mend(9)
    assert [start.start for start in waiting(recorder)] == [1], "one of the round has not ended"
    fail(recorder, 1, 1)
    bag.mend(9)
    assert [(start.start, start.again) for start in waiting(recorder)] == [(3, 0), (4, 1), (5, 2)]
    bag.close()


def test_a_start_that_is_tried_again_has_another_seed(recorder: Recorder, space: TupleSpace) -> None:
    """As every start of a run has, or the same would happen again."""
    bag = bag_of(recorder, space)
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(3)])
    bag.fill(lambda: unscored(recorder.state), 3)
    seeds = [start.seed for start in waiting(recorder)]
    for tries in range(4):
        for walker, start in enumerate(waiting(recorder)):
            fail(recorder, walker, start.start)
        bag.mend(9)
        seeds += [start.seed for start in waiting(recorder)]
        assert len(set(seeds)) == len(seeds) == 3 * (tries + 2)
    bag.close()


def test_starts_take_conditions_in_turn_and_one_that_is_tried_again_keeps_its_own(
    recorder: Recorder, space: TupleSpace
) -> None:
    """Else failures, which take numbers of starts too, would leave one condition to most of those that work."""
    condition = lambda turn: {"kelvin": (300.0, 600.0)[turn % 2]}  # noqa: E731
    decisions = recorder.journal.path.parent / "decisions.jsonl"
    bag = Bag(recorder, space, Steering(), decisions, seed=1, rounds=False, condition=condition)
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(3)])
    chosen: list[Start] = []
    for turn in range(8):
        before = recorder.state.next_start
        bag.fill(lambda: unscored(recorder.state), 3 + 2 * turn)
        chosen += [each for each in waiting(recorder) if each.start >= before]
        start = chosen[-1]
        fail(recorder, turn % 3, start.start)
        bag.mend(9)
        (again,) = (each for each in waiting(recorder) if each.again == start.start)
        assert again.condition == start.condition
    assert Counter(each.condition["kelvin"] for each in chosen) == {300.0: 5, 600.0: 5}
    assert len({replace(chosen[0], condition={"kelvin": kelvin}).conditions for kelvin in (300.0, 600.0)}) == 2
    bag.close()


def test_a_start_that_fails_under_a_bias_is_tried_again_with_half_of_it_and_the_run_says_so(
    recorder: Recorder, space: TupleSpace
) -> None:
    """Its frames are of no version: state.mode(Biases).unversioned has it. One without a bias stays as it is."""
    bag, state = bag_of(recorder, space), recorder.state
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(2)])
    recorder.record(Start(start=0, seed=1))
    fail(recorder, 0, 0)
    recorder.record(Biased(bias=1, model=0, frames=30, sha256="0"))
    bag.mend(2)
    assert [(start.bias, start.share, start.attempt) for start in waiting(recorder)] == [(1, 1.0, 1)]
    recorder.record(Biased(bias=2, model=0, frames=40, sha256="0"))
    for attempt, share in ((2, 0.5), (3, 0.25)):
        (start,) = waiting(recorder)
        fail(recorder, attempt % 2, start.start)
        bag.mend(4)
        (again,) = waiting(recorder)
        assert (again.bias, again.share, again.attempt) == (2, share, attempt)
        assert f"under bias {start.bias}" in words(state.notes[-1])
        assert f"{100 * share:g} %" in words(state.notes[-1])
    assert state.mode(Biases).unversioned == {2, 3}
    bag.close()


def test_a_control_that_fails_is_tried_again_as_a_control(recorder: Recorder, space: TupleSpace) -> None:
    bag = bag_of(recorder, space)
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(2)])
    recorder.record_all([Biased(bias=1, model=0, frames=30, sha256="0"), Start(start=0, seed=1, share=0.0)])
    fail(recorder, 0, 0)
    bag.mend(2)
    assert [(start.bias, start.share, start.attempt) for start in waiting(recorder)] == [(0, 0.0, 1)]
    bag.close()


def test_a_start_that_waits_gets_another_bias_when_its_own_is_set_aside(recorder: Recorder, space: TupleSpace) -> None:
    """The newest one that is whole, and none where no other is there."""
    bag = bag_of(recorder, space)
    recorder.record_all([Biased(bias=version, model=0, frames=30, sha256="0") for version in (1, 2)])
    recorder.record(Start(start=0, seed=1, bias=2))
    for version in (2, 1):
        bag.align(1, offered=True)
        assert [start.bias for start in waiting(recorder)] == [version]
        recorder.record(Damaged(bias=version, reason="it is missing"))
    bag.align(1, offered=True)
    bag.align(1, offered=True)
    assert [start.bias for start in waiting(recorder)] == [0]
    assert len([*space.take_many_nowait(START, int, dict, n=ALL)]) == 1
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


class Mistaken(Policy):
    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        return [Candidate(int(scores.values["y"].argmax()), "Mistaken", 0.0, "")]


def test_the_line_of_a_policy_that_fails_is_kept(recorder: Recorder, space: TupleSpace) -> None:
    steering = Steering(Mistaken())
    bag = Bag(recorder, space, steering, recorder.journal.path.parent / "decisions.jsonl", seed=1, rounds=False)
    recorder.record(Scored(model=0, frames=8))
    zeros, rows = np.zeros(8, np.int32), np.arange(8)
    bag.fill(lambda: Scores(zeros, rows, zeros, zeros, ends=rows == 7, values={"x": rows / 8}), 1)
    assert "KeyError: 'y'" in recorder.state.stages["steer"].cause
    traceback = RunDirectory(recorder.journal.path.parent).traceback("steer")
    assert 'scores.values["y"].argmax()' in traceback.read_text()
    bag.close()


@pytest.mark.parametrize(("explore", "works"), [(1.0, False), (0.0, True)])
def test_a_start_at_random_does_not_say_that_the_policy_works(
    explore: float, works: bool, recorder: Recorder, space: TupleSpace
) -> None:
    steering = Steering(Novelty("x"), explore=explore)
    bag = Bag(recorder, space, steering, recorder.journal.path.parent / "decisions.jsonl", seed=1, rounds=False)
    recorder.record(Scored(model=0, frames=8))
    zeros, rows = np.zeros(8, np.int32), np.arange(8)
    bag.fill(lambda: Scores(zeros, rows, zeros, zeros, ends=rows == 7, values={"x": rows / 8}), 1)
    assert recorder.state.chosen == {"Novelty" if works else "explore": 1}
    assert ("steer" in recorder.state.stages) == works
    bag.close()


def test_draws_that_are_held_out_are_started_first_and_once(recorder: Recorder, space: TupleSpace) -> None:
    """Also when the driver dies in between, a person pins a frame, and one of them fails and is tried again."""
    draws = [{"point": [float(i)]} for i in range(5)]

    def bag() -> Bag:
        folder = recorder.journal.path.parent
        return Bag(recorder, space, Steering(), folder / "decisions.jsonl", seed=1, rounds=False, held_out=draws)

    bag_of(recorder, space).close()
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(2)])
    first = bag()
    first.fill(lambda: unscored(recorder.state), 2)
    first.close()
    fail(recorder, 0, 0)
    second = bag()
    second.mend(retries=2)
    recorder.record(Tell(id="a", who="me", verb="pin", text="", frame=FrameId(0, 0, 0)))
    second.fill(lambda: unscored(recorder.state), 7)
    second.close()
    starts = {record.start: record for record in waiting(recorder)}
    held_out = {number for number, record in starts.items() if record.held_out}
    assert sorted(float(starts[number].draw["point"][0]) for number in held_out) == [0, 1, 2, 3, 4]  # type: ignore[index]
    assert recorder.state.mode(HeldOut).drawn == {0, *held_out}
    assert [record.pin for record in starts.values()].count("a") == 1
    assert recorder.state.mode(HeldOut).draws == 5
    rest = set(range(recorder.state.next_start)) - recorder.state.mode(HeldOut).drawn
    assert not recorder.state.mode(HeldOut).has(np.array(sorted(rest))).any()
    assert recorder.state.mode(HeldOut).has(np.array(sorted(held_out))).all()


def test_the_starts_of_slots_without_a_walker_are_run_by_others_until_it_comes(
    recorder: Recorder, space: TupleSpace, tmp_path: Path
) -> None:
    """In rounds: each slot has its start, and what a start gives does not depend on the walker that runs it."""
    jobs: Any = Jobs()
    bag, now = bag_of(recorder, space), [0.0]
    bag._rounds = True
    crew = Crew(
        RunDirectory(tmp_path), 3, recorder, jobs, bag, space, hang_s=9.0, starts_s=60.0, keep=False, own_disks=False,
        clock=lambda: now[0],
    )  # fmt: skip
    crew.start()
    recorder.record_all([Start(start=slot, seed=slot, slot=slot) for slot in range(3)])

    def offered() -> dict[str, list[int]]:
        bag.share(crew.stand_ins(), 3)
        bag.align(3, offered=True)
        found = {name: sorted(n for _, n, _ in space.read_many_nowait(name, int, dict)) for name in space.names()}
        return {name: starts for name, starts in found.items() if starts}

    each = {f"{START}.{slot}": [slot] for slot in range(3)}
    now[0] = 1000.0
    assert offered() == each, "nobody has come who could run them"
    recorder.record(Joined(walker=1, node="n1", pid=1, pool="p"))
    for now[0] in (1000.0, 1060.0):
        assert offered() == each
    now[0] = 1061.0
    assert offered() == {f"{START}.1": [0, 1, 2]}
    recorder.record(Joined(walker=2, node="n2", pid=1, pool="p"))
    assert offered() == {f"{START}.1": [0, 1], f"{START}.2": [2]}
    recorder.record(Joined(walker=0, node="n3", pid=1, pool="p"))
    assert offered() == each
    bag.close()


def test_the_weights_of_a_round_sum_to_1_at_every_moment_and_a_member_that_is_given_up_ends_the_run(
    recorder: Recorder, space: TupleSpace
) -> None:
    """A start that is tried again takes its weight with it; without a member there is no further round."""
    steering = Steering(WeightedEnsemble("x", members=3))
    bag = Bag(recorder, space, steering, recorder.journal.path.parent / "decisions.jsonl", seed=1, rounds=True)
    state = recorder.state
    recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(2)])
    bag.fill(lambda: unscored(state), 2)
    members = waiting(recorder)
    assert [(start.weight, start.round, start.slot) for start in members] == [
        (1 / 3, 1, 0),
        (1 / 3, 1, 1),
        (1 / 3, 1, 0),
    ]
    for row, start in enumerate(waiting(recorder)[:2]):
        made: dict[str, Any] = {"walker": 0, "segment": row, "start": start.start, "first_row": row}
        recorder.record(Began(**made))
        recorder.record(Ended(**made, end_row=row + 1, how="finished"))
    recorder.record(Published(walker=0, frames=2, segments=2))
    for walker in (0, 1, 0):
        (start,) = waiting(recorder)
        fail(recorder, walker, start.start)
        assert sum(state.mode(Ensemble).weights) == pytest.approx(1)
        bag.mend(2)
        assert sum(state.mode(Ensemble).weights) == pytest.approx(1)
    assert not waiting(recorder), "three times is enough"
    recorder.record(Published(walker=0, frames=2, segments=4))
    recorder.record(Published(walker=1, frames=0, segments=1))
    assert not state.starts
    bag.fill(lambda: unscored(state), 2)
    assert "0.666667" in bag.hopeless
    assert not state.starts
    bag.close()


def test_what_a_policy_of_rounds_warns_of_is_noted(recorder: Recorder, space: TupleSpace) -> None:
    class Warns(WeightedEnsemble):
        def warning(self, scores: Scores) -> str:
            return "the start lies in the target"

    decisions = recorder.journal.path.parent / "decisions.jsonl"
    bag = Bag(recorder, space, Steering(Warns("x")), decisions, seed=1, rounds=True)
    recorder.record(Hired(walker=0, slot=0))
    bag.fill(lambda: unscored(recorder.state), 1)
    assert [note.text for note in recorder.state.notes if isinstance(note, Note)] == ["the start lies in the target"]
    bag.close()


def run(recorder: Recorder, start: int) -> None:
    """A walker runs a start, and publishes what there is of it."""
    number = len(recorder.state.walkers[0].segments)
    made: dict[str, Any] = {"walker": 0, "segment": number, "start": start, "first_row": 0}
    recorder.record_all([
        Began(**made), Ended(**made, end_row=0, how="finished"), Published(walker=0, frames=0, segments=number + 1)
    ])  # fmt: skip


def test_a_start_that_somebody_deletes_from_the_bus_is_seen_and_offered_again(
    recorder: Recorder, tmp_path: Path
) -> None:
    """Each key of the starts alone, one after another, by whoever has the password. What a walker holds is not lost."""
    now, state = [0.0], recorder.state
    with (
        Server.start(tmp_path / "bus") as server,
        redis.Redis.from_url(server.url) as client,
        TupleSpace.connect(server.url) as space,
    ):
        decisions = tmp_path / "decisions.jsonl"
        bag = Bag(
            recorder, space, Steering(), decisions, seed=1, rounds=False, lost_s=10 * LOOK_S, clock=lambda: now[0]
        )
        recorder.record(Hired(walker=0, slot=0))
        seen = []
        for kind in ("m", "q", "t", "i"):
            bag.align(3, offered=True)
            bag.fill(lambda: unscored(state), 2)
            space.count(START, 0, dict)  # makes an index, as the engine does
            assert client.delete(*client.scan_iter(f"*{{{START}}}:{kind}*"))
            bag.fill(lambda: unscored(state), 3)
            wanted, held = {start.start for start in waiting(recorder)}, set[int]()
            assert len(wanted) == 3
            for _ in range(30):
                while (taken := space.take_nowait(START, int, dict, lease_s=1000.0)) is not None:
                    held.add(taken[1])
                    run(recorder, taken[1])
                    space.ack(taken)
                now[0] += LOOK_S
                if bag.lost():
                    seen.append(kind)
                    bag.doubt()
                    bag.align(3, offered=True)
            assert held == wanted
        assert {"q", "t"} <= set(seen), "its entries, and which of them may be taken"
        bag.fill(lambda: unscored(state), 1)
        assert space.take_nowait(START, int, dict, lease_s=1000.0)
        for _ in range(10):
            now[0] += LOOK_S
            assert bag.lost() == 0, "a walker has it, and has not said that it began"
        bag.close()


@pytest.mark.parametrize(("names", "chooses"), [((), Unsteered), (("x",), Unsteered), (("x", "z"), Novelty)])
def test_the_fallback_chooses_until_the_scores_exist_that_the_policy_needs(
    names: tuple[str, ...], chooses: type[Policy]
) -> None:
    """Scores of before the first model may be others, and Unsteered waits for the end of a segment all the same."""
    assert isinstance(Steering(Novelty("z")).deciding(names), chooses)
