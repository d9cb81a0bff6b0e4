"""Versions of the bias through a run in rounds, in memory: real journal, bag, scores and bias; walkers are played.

A particle on a line with two wells is pushed by `start.bias` along `start.model`'s coordinate, which is x times the
model's version and one.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman import Workflow, budget
from steersman.dashboard.live.watched import columns_of
from steersman.data import tables
from steersman.data.history import History
from steersman.data.replay import replay
from steersman.data.reweighing import reweighted
from steersman.data.why import given, lines, why
from steersman.engine.bag import Bag
from steersman.engine.learning import Pusher
from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.modes.biases import Biases, file_of
from steersman.journal.records import (
    Began,
    Biased,
    Damaged,
    Ended,
    FrameId,
    Hired,
    Lost,
    Published,
    Record,
    Run,
    Scored,
    Start,
    Trained,
    Training,
)
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import Scoreboard, unscored
from steersman.journal.state import State
from steersman.steering import Bias, Opes, Scores, Steering, Unsteered

from .mortal import Killed, Mortal

BIAS = Opes("z", barrier_kT=8, lost=-0.3)  # so that a few are
SLOTS, ROUNDS, FRAMES, STEPS = 2, 8, 10, 3
ACCEPTED = {2: True, 4: False, 6: True}  # trainings, by the round that they end


class Basket:
    """Stands for the bus: what was put and not taken."""

    def __init__(self) -> None:
        self.starts: dict[int, dict[str, Any]] = {}

    def put_many(self, tuples: Iterable[tuple[str, int, dict[str, Any]]]) -> None:
        self.starts |= {start: fields for _, start, fields in tuples}


def coordinate(x: Any, model: int) -> Any:
    return (1 + model) * x


def segment(directory: RunDirectory, start: Start, x: float) -> tuple[np.ndarray, np.ndarray]:
    """(FRAMES,) positions and energies of the bias, kT."""
    bias = Bias.from_bytes(file_of(directory, start.bias).read_bytes()).softer(start.share) if start.bias else None
    rng, step, found = np.random.default_rng(start.seed), 5e-3, []
    for _ in range(FRAMES):
        for noise in rng.normal(size=STEPS):
            push = (1 + start.with_model) * float(bias.gradient(coordinate(x, start.with_model))) if bias else 0.0
            x += -step * (32 * x * (x * x - 1) + push) + np.sqrt(2 * step) * noise
        found.append((x, float(bias.energy(coordinate(x, start.with_model))) if bias else 0.0))
    return np.array(found)[:, 0], np.array(found)[:, 1]


def steered(bias: Opes) -> Workflow:
    workflow = Workflow("line", stop=budget(frames=1))
    workflow.steer(bias=bias)
    return workflow


class Ran:
    """A run of `ROUNDS` rounds, killed after so many records and gone on with, each time by new walkers."""

    def __init__(self, folder: Path, dies_after: Iterable[int] = (), *, bias: Opes = BIAS) -> None:
        self.directory = RunDirectory(folder)
        folder.mkdir()
        self.frames: dict[tuple[int, int], tuple[float, float]] = {}  # (walker, row) -> position and energy
        for left in (*dies_after, 10**9):
            self.recorder = Mortal(Journal(self.directory.journal), State(self.story()))
            self.recorder.left, self.state = left, self.recorder.state
            pusher, steering = Pusher(self.directory, bias, self.recorder), Steering(Unsteered(), bias=bias)
            bag = Bag(
                self.recorder, Basket(), steering, self.directory.decisions, seed=1, rounds=True,  # type: ignore[arg-type]
                amend=pusher.unless_lost,
            )  # fmt: skip
            with closing(self.recorder.journal), closing(bag), suppress(Killed):
                self._drive(bag, pusher)

    def story(self) -> list[Record]:
        return list(journal.read(self.directory.journal)) if self.directory.journal.exists() else []

    def _drive(self, bag: Bag, pusher: Pusher) -> None:
        state, record = self.state, self.recorder.record
        if not state.run.workflow:
            record(Run(workflow="line", seed=1, rounds=True, slots=SLOTS))
        for walker in [walker.number for walker in state.walkers.values() if walker.alive]:
            record(Lost(walker=walker, cause="killed"))
        walkers = [record(Hired(walker=state.next_walker, slot=slot)).walker for slot in range(SLOTS)]
        self.board = Scoreboard.load(self.directory.scores, state.scored_with, state.scored)
        while state.frames < ROUNDS * SLOTS * FRAMES:
            if not state.starts:
                self._learn(pusher)
                bag.fill(lambda: self.board.scores(state), SLOTS)
            for start in [start.record for start in state.starts.values() if start.segment is None]:
                self._simulate(walkers[start.slot], start)
        self._learn(pusher)

    def _learn(self, pusher: Pusher) -> None:
        state, record = self.state, self.recorder.record
        done = state.frames // (SLOTS * FRAMES)
        version = 1 + sum(each < done for each in ACCEPTED)
        if done in ACCEPTED and state.models.newest < version and len(state.models) < version:
            record(Training(model=version, frames=state.frames))
        if done in ACCEPTED and state.models.under_way is not None:
            record(Trained(model=version, accepted=ACCEPTED[done], reason=""))
        if self.board.model != state.models.newest:
            self.board = Scoreboard(self.directory.scores, state.models.newest)
        if spans := self.board.missing(state, 10**6):
            made = [self.frames[int(span.walker[1:]), row] for span in spans for row in range(span.first, span.end)]
            x, energy = np.array(made).T
            self.board.add(spans, {"z": coordinate(x, self.board.model), "bias": energy})
            record(Scored(model=self.board.model, frames=self.board.frames))
        pusher.advance(self.board.scores(state))

    def _simulate(self, walker: int, start: Start) -> None:
        of, record = self.state.walkers[walker], self.recorder.record
        first, number = of.frames, len(of.segments)
        begin = self.frames[start.parent[:2]][0] if start.parent else -1.0
        told: dict[str, Any] = {"walker": walker, "segment": number, "start": start.start, "first_row": first}
        record(Began(**told))
        made = segment(self.directory, start, begin)
        self.frames |= {(walker, first + i): (x, energy) for i, (x, energy) in enumerate(zip(*made, strict=True))}
        record(Ended(**told, end_row=first + FRAMES, how="finished", simulated=1.0))
        record(Published(walker=walker, frames=first + FRAMES, segments=number + 1))

    @property
    def by_start(self) -> dict[int, bytes]:
        """The frames that count."""
        return {
            each.start: np.array([self.frames[each.walker, row] for row in range(each.first, each.end or 0)]).tobytes()
            for each in self.state.segments
            if each.counts and each.how == "finished"
        }

    @property
    def versions(self) -> list[tuple[int, int, int, str]]:
        return [(each.bias, each.model, each.frames, each.sha256) for each in self.state.mode(Biases).versions]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("biased") / "run")


@pytest.mark.slow
def test_a_run_in_rounds_that_was_killed_makes_the_same_versions_and_frames(unbroken: Ran, tmp_path: Path) -> None:
    """Bit for bit, wherever it was killed: also between the file of a version and its record."""
    assert len(unbroken.versions) == ROUNDS
    story = unbroken.story()
    made = [at for at, each in enumerate(story) if isinstance(each, Biased)]
    for at in (2, *range(7, len(story), 31), made[3], made[3] + 1, made[6]):
        other = Ran(tmp_path / str(at), (at, 25))
        assert other.versions == unbroken.versions, at
        assert other.by_start == unbroken.by_start, at
        assert Counter(each.start for each in other.state.segments if each.counts).most_common(1)[0][1] == 1


def test_each_version_has_the_recorded_hash_and_is_made_again_from_its_scores(unbroken: Ran) -> None:
    for each in unbroken.state.mode(Biases).versions:
        assert hashlib.sha256(file_of(unbroken.directory, each.bias).read_bytes()).hexdigest() == each.sha256
    found = replay(unbroken.directory, steered(BIAS))
    assert (found["decisions"], found["different"]) == (SLOTS * ROUNDS, [])
    assert (found["biases"], found["same_biases"]) == (ROUNDS, ROUNDS)
    other = replay(unbroken.directory, steered(replace(BIAS, barrier_kT=9)))
    assert (other["biases"], other["same_biases"]) == (ROUNDS, 0)


def test_a_start_has_the_newest_version_and_the_model_whose_coordinate_it_pushes_along(unbroken: Ran) -> None:
    """Also when a model is refused, which leaves the bias as it is."""
    state = State()
    for record in unbroken.story():
        before = state.mode(Biases).newest
        if isinstance(record, Start):
            assert (record.bias, record.with_model) == ((before.bias, before.model) if before else (0, 0))
        state.apply(record)
        if isinstance(record, Trained) and not record.accepted:
            assert state.mode(Biases).newest is before is not None
    assert {start.with_model for start in unbroken.story() if isinstance(start, Start)} == {0, 1, 3}


def test_a_version_that_was_set_aside_is_given_to_no_start_and_its_number_never_again(unbroken: Ran) -> None:
    state = State(unbroken.story())
    newest = state.mode(Biases).versions[-1]
    state.apply(Damaged(bias=newest.bias, reason="it is missing"))
    assert state.mode(Biases).newest == state.mode(Biases).versions[-2]
    assert state.mode(Biases).next_version == newest.bias + 1
    assert not state.is_sound(Start(start=99, seed=1, bias=newest.bias, with_model=newest.model))
    assert state.is_sound(Start(start=99, seed=1, bias=newest.bias - 1, with_model=newest.model))
    state.apply(Damaged(model=newest.model, reason="it was changed"))
    before = state.mode(Biases).newest
    assert before is not None
    assert before.model == 1
    lost = State(each for each in unbroken.story() if not (isinstance(each, Biased) and each.bias == 5))
    assert lost.mode(Biases).next_version == newest.bias + 1
    scores = Scoreboard.load(unbroken.directory.scores, 3, 10**6).scores(lost)
    assert set(scores.biased_by) == {0, 1, 3}


def test_a_control_is_never_pushed_and_all_others_are(tmp_path: Path) -> None:
    """Nor is a control ever lost; where all slots would be controls, one is none."""
    bias = replace(BIAS, lost=-1e-9, controls=2)
    ran = Ran(tmp_path / "run", bias=bias)
    starts = {start.start: start for start in ran.story() if isinstance(start, Start)}
    control = {number for number, start in starts.items() if not start.share}
    for number, start in starts.items():
        root = starts_of(ran)[start.parent.walker, start.parent.segment].start if start.parent else None
        assert (number in control) == (root in control if start.exact else number < 1)
        assert (start.bias > 0) == (number >= SLOTS and number not in control)
        assert not (start.instead and number in control)
    assert len(control) == ROUNDS
    scores = ran.board.scores(ran.state)
    weight = reweighted(History(ran.directory), scores).weight
    made = zip(scores.walker.tolist(), scores.segment.tolist(), strict=True)
    assert not weight[[starts_of(ran)[each].start in control for each in made]].any()
    assert replay(ran.directory, steered(bias))["different"] == []
    killed = Ran(tmp_path / "killed", (29, 25), bias=bias)
    assert (killed.versions, killed.by_start) == (ran.versions, ran.by_start)


def test_an_end_that_is_lost_is_given_up_for_a_heavy_frame_and_every_other_end_is_continued_once(unbroken: Ran) -> None:
    starts = [start for start in unbroken.story() if isinstance(start, Start)]
    ends = {FrameId(each.walker, each.end - 1, each.number) for each in unbroken.state.segments if each.end}
    given_up = [start.instead for start in starts if start.instead]
    continued = [start.parent for start in starts if start.exact]
    assert 1 < len(given_up) < len(continued)
    assert len({*given_up, *continued}) == len(given_up) + len(continued)
    assert {*given_up, *continued} | set(newest_ends(unbroken)) == ends
    for start in starts:
        assert (start.policy == "Opes") == (start.instead is not None) == (start.parent is not None and not start.exact)


def newest_ends(ran: Ran) -> list[FrameId]:
    """Of the last round."""
    last = [each for each in ran.state.segments if each.start >= SLOTS * (ROUNDS - 1)]
    return [FrameId(each.walker, (each.end or 0) - 1, each.number) for each in last]


def test_whether_a_walker_is_lost_is_seen_by_the_newest_segment_that_has_scores(unbroken: Ran) -> None:
    """Scores come later than ends; those of the segments before tell as well, but of none without a bias."""
    state = unbroken.state
    pusher = Pusher(unbroken.directory, replace(BIAS, lost=-1e-9), unbroken.recorder)
    (end, _) = newest_ends(unbroken)
    start = Start(start=99, seed=1, parent=end, exact=True, policy="Unsteered")
    scores = unbroken.board.scores(state)
    before = state.mode(Biases).before(end[::2])
    assert before is not None

    def judged(low: tuple[int, int], *, without: tuple[int, int] = (-1, -1)) -> bool:
        """With the frames of one segment at the floor of the bias."""
        kept = np.flatnonzero((scores.walker != without[0]) | (scores.segment != without[1]))
        columns: dict[str, Any] = {
            name: getattr(scores, name)[kept] for name in ("walker", "row", "segment", "starts", "ends")
        }
        of = (columns["walker"] == low[0]) & (columns["segment"] == low[1])
        values = {"z": scores.values["z"][kept], "bias": np.where(of, -20.0, 0.0)}
        known = Scores(**columns, values=values, model=scores.model)
        return pusher.unless_lost(start, known, np.random.default_rng(1)) != start

    assert judged(end[::2])
    assert not judged(before)
    assert judged(before, without=end[::2])
    assert (
        not Pusher(unbroken.directory, replace(BIAS, lost=None), unbroken.recorder)
        .unless_lost(start, scores, np.random.default_rng(1))
        .instead
    )


def test_without_scores_nobody_is_lost(unbroken: Ran) -> None:
    """As when they were set aside, for they were damaged."""
    story = unbroken.story()
    state = State(story[: next(at for at, each in enumerate(story) if isinstance(each, Training))])
    newest = state.mode(Biases).newest
    assert newest is not None
    assert newest.model == 0
    pusher = Pusher(unbroken.directory, replace(BIAS, lost=-1e-9), SimpleNamespace(state=state))  # type: ignore[arg-type]
    segment = next(each for each in state.segments)
    start = Start(start=99, seed=1, parent=FrameId(segment.walker, FRAMES - 1, segment.number), exact=True)
    assert pusher.unless_lost(start, unscored(state), np.random.default_rng(1)) is start


def test_segments_and_why_say_which_model_and_which_version_pushed(unbroken: Ran) -> None:
    history, starts = (
        History(unbroken.directory),
        {each.start: each for each in unbroken.story() if isinstance(each, Start)},
    )
    table = tables.segments(history)
    got = [(starts[start].with_model, starts[start].bias, 1.0) for start in table["start"]]
    assert list(zip(table["with_model"], table["bias"], table["share"], strict=True)) == got
    assert len(set(got)) > 4
    assert columns_of(history)["bias"].tolist() == table["bias"].tolist()  # for the page
    for name, start in table["start"].items():
        told = why(history, str(name))
        assert (told["with_model"], told["bias"], told["share"]) == got[list(table.index).index(name)]
        said = [line for line in lines(told) if line.strip().startswith("given")]
        assert len(said) == (starts[start].bias > 0)
        assert not said or said[0].endswith(f"pushed by bias {starts[start].bias}")
    words = str(given({"with_model": 2, "bias": 5, "share": 0.25}))
    assert words == "model 2, pushed by bias 5 with 25 % of its energy"


def test_frames_of_a_version_that_was_set_aside_have_no_weight_and_all_others_have(
    unbroken: Ran, tmp_path: Path
) -> None:
    run = RunDirectory(shutil.copytree(unbroken.directory.path, tmp_path / "run"))
    scores = unbroken.board.scores(unbroken.state)
    before = reweighted(History(run), scores)
    pushed = np.array([starts_of(unbroken)[walker, segment].bias for walker, segment in
                       zip(scores.walker.tolist(), scores.segment.tolist(), strict=True)])  # fmt: skip
    weighed = pushed[before.weight > 0]
    set_aside = int(weighed[-1])
    assert set(weighed) > {set_aside}
    file_of(run, set_aside).unlink()
    writer = Journal(run.journal)
    writer.append(Damaged(bias=set_aside, reason="it is missing"))
    writer.close()
    after = reweighted(History(run), scores)
    assert (after.weight[pushed == set_aside] == 0).all()
    assert (after.weight[(before.weight > 0) & (pushed != set_aside)] > 0).all()


def starts_of(ran: Ran) -> dict[tuple[int, int], Start]:
    """By walker and segment."""
    starts = {each.start: each for each in ran.story() if isinstance(each, Start)}
    return {(each.walker, each.number): starts[each.start] for each in ran.state.segments}
