"""Starts beyond what a budget allows are not handed out: it is passed by a segment, not by one of each slot."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.engine import ending
from steersman.engine.bag import Bag
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Published, Run, Start
from steersman.journal.scoreboard import unscored
from steersman.journal.state import State
from steersman.steering import Random as Anywhere
from steersman.steering import Steering, StopRule, budget, plateau
from tests.engine.test_plain_sampling import Basket


def spent(slots: int, frames: int, rule: StopRule, seed: int, frame_ns: float = 1.0) -> State:
    """A run of slots whose segments have so many frames, published late and in any order, to its end."""
    with TemporaryDirectory() as folder:
        state, bus, draw = State(), Basket(), random.Random(seed)
        recorder = Recorder(Journal(Path(folder) / "journal.jsonl"), state)
        steering, decisions = Steering(Anywhere()), Path(folder) / "decisions.jsonl"
        bag = Bag(recorder, bus, steering, decisions, seed=1, rounds=False)  # type: ignore[arg-type]
        recorder.record(Run(time_unit="ns"))
        recorder.record_all([Hired(walker=walker, slot=walker) for walker in range(slots)])
        while ending.met(state, rule, 0.0) is None:
            bag.fill(lambda: unscored(state), slots, lambda: ending.room(state, rule))
            walker = state.walkers[draw.randrange(slots)]
            running, number, done = walker.running, len(walker.segments), walker.published_segments
            ended = number - (running is not None)
            first = frames * ended
            if running is not None and draw.random() < 0.9:
                recorder.record(Ended(
                    walker=walker.number, segment=ended, start=running.start, how="finished", first_row=first,
                    end_row=first + frames, simulated=frames * frame_ns,
                ))  # fmt: skip
            elif running is None and bus.starts and draw.random() < 0.9:
                start = bus.starts.pop(0)
                recorder.record(Began(walker=walker.number, segment=number, start=start, first_row=first))
            elif done < number and draw.random() < 0.1:
                part = draw.randrange(frames) if running else 0  # of the frames of the one that runs
                said = Published(walker=walker.number, frames=first + part, segments=ended, simulated=part * frame_ns)
                recorder.record(said)
        bag.close()
        assert len(state.starts) <= 2 * slots
        return state


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 9), st.integers(1, 400), st.integers(0, 10**6))
def test_a_budget_is_passed_by_less_than_a_segment(slots: int, frames: int, limit: int, seed: int) -> None:
    """Once a segment has said how many frames one has: until then each slot has one, and one ahead."""
    for rule in (plateau("coverage") | budget(frames=limit), budget(sim_ns=limit)):
        started = frames * spent(slots, frames, rule, seed).next_start
        assert limit <= started < max(limit + frames, frames * (2 * slots + 1) + 1)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 200), st.floats(0.01, 10), st.integers(0, 10**6))
def test_a_budget_of_time_is_spent_whatever_the_sum_of_its_parts_is_rounded_to(
    slots: int, frames: int, segments: int, frame_ns: float, seed: int
) -> None:
    """As many segments as there are in the budget, or those that each slot has at its begin: no less and no more."""
    state = spent(slots, frames, budget(sim_ns=segments * (frames * frame_ns)), seed, frame_ns)
    assert segments <= state.next_start <= max(segments, 2 * slots + 1)


def test_what_says_no_number_of_segments_holds_no_start_back() -> None:
    state = State()
    assert ending.room(state, budget(frames=1)) == float("inf"), "no segment has ended"
    for record in (Hired(walker=0, slot=0), Start(start=0, seed=1), Began(walker=0, segment=0, start=0, first_row=0)):
        state.apply(record)
    state.apply(Ended(walker=0, segment=0, start=0, how="finished", first_row=0, end_row=0))
    assert ending.room(state, budget(frames=1)) == float("inf"), "it left no frame"
    assert ending.room(state, budget(hours=1) | plateau("coverage")) == float("inf")
