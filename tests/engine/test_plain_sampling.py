"""The bag of starts: plain sampling stays one trajectory a slot, however late its ends are known."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steersman.engine.bag import Bag
from steersman.journal.file import Journal, read
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Published, Run, Start
from steersman.journal.scoreboard import unscored
from steersman.journal.state import State
from steersman.steering import Frontier, LocalOutlierFactor, Novelty, Policy, Scores, Steering, Unsteered

SLOTS, FRAMES, SEGMENTS = 3, 4, 20


class Basket:
    """Stands for the bus: what was put and not taken."""

    def __init__(self) -> None:
        self.starts: list[int] = []

    def put_many(self, tuples: Iterator[tuple[str, int, dict[str, object]]]) -> None:
        self.starts += [start for _, start, _ in tuples]


def parents(folder: Path, policy: Policy, newest: Callable[[State], Scores] = unscored) -> list[list[int] | None]:
    """Where each start began: slots end their segments in turn, and their frames are published one segment later."""
    state, bus = State(), Basket()
    recorder = Recorder(Journal(folder / "journal.jsonl"), state)
    bag = Bag(recorder, bus, Steering(policy), folder / "decisions.jsonl", seed=1, rounds=False)  # type: ignore[arg-type]
    recorder.record(Run())
    for walker in range(SLOTS):
        recorder.record(Hired(walker=walker, slot=walker))
    random, running, late = np.random.default_rng(0), dict[int, int](), list[int]()
    ended = [0] * SLOTS
    while sum(ended) < SLOTS * SEGMENTS:
        bag.fill(lambda: newest(state), SLOTS)
        assert len(state.starts) <= SLOTS
        for walker in set(range(SLOTS)) - set(running):
            if bus.starts:
                running[walker] = bus.starts.pop(0)
                recorder.record(
                    Began(
                        walker=walker,
                        segment=ended[walker],
                        start=running[walker],
                        first_row=FRAMES * ended[walker],
                        waited_s=0.0,
                    )
                )
        if late and (not running or random.random() < 0.5):
            walker = late.pop(0)
            recorder.record(Published(walker=walker, frames=FRAMES * ended[walker], segments=ended[walker]))
        elif running:
            walker = int(random.choice(list(running)))
            first = FRAMES * ended[walker]
            recorder.record(
                Ended(
                    walker=walker,
                    segment=ended[walker],
                    start=running.pop(walker),
                    first_row=first,
                    end_row=first + FRAMES,
                    how="finished",
                    cause="",
                    simulated=1.0,
                    read_s=0.0,
                    ran_s=1.0,
                )
            )
            ended[walker] += 1
            late.append(walker)
    bag.close()
    return [list(s.parent) if s.parent else None for s in read(folder / "journal.jsonl", Start)]


@pytest.mark.parametrize("policy", [Unsteered(), LocalOutlierFactor("z")], ids=["plain", "until there are scores"])
def test_plain_sampling_is_one_trajectory_a_slot_and_no_end_is_continued_twice(policy: Policy, tmp_path: Path) -> None:
    begun = parents(tmp_path, policy)
    assert begun[:SLOTS] == [None] * SLOTS
    assert None not in begun[SLOTS:]
    continued = [tuple(parent) for parent in begun[SLOTS:] if parent]
    assert len(set(continued)) == len(continued)
    assert all(row % FRAMES == FRAMES - 1 for _, row, _ in continued)


def test_who_waits_for_scores_starts_no_more_than_there_are_slots(tmp_path: Path) -> None:
    """Scores that come late, and know nothing of the newest starts."""
    known: list[Scores] = []

    def late(state: State) -> Scores:
        if not known or np.random.default_rng(state.frames).random() < 0.6:
            state.scored = state.frames
            frames = unscored(state)
            known[:] = [replace(frames, values={"z": np.arange(len(frames), dtype=float)})]
        return known[0]

    begun = parents(tmp_path, Frontier(Novelty("z"), newest=2 * SLOTS), late)
    assert begun.count(None) <= 2 * SLOTS
    counts = Counter(tuple(parent) for parent in begun if parent)
    assert max(counts.values()) <= 2
