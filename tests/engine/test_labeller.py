"""Labels of a run on a clock of their own: whatever dies, each frame is asked once and each answer is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Params, Workflow, budget, every
from steersman.data import tables
from steersman.data.history import History
from steersman.data.replay import replay
from steersman.data.verify import verify
from steersman.engine.driven import Driven
from steersman.engine.labeller import Labeller
from steersman.executors.site_files import load_site
from steersman.executors.workers import Labellers
from steersman.journal.file import Journal, read
from steersman.journal.modes.labels import Labels
from steersman.journal.recorder import Recorder
from steersman.journal.records import (
    Answered,
    Asked,
    Began,
    Ended,
    FrameId,
    Hired,
    Note,
    Prepared,
    Published,
    Record,
    Run,
    Scored,
    Session,
    Start,
    Tell,
    Trained,
    Training,
)
from steersman.journal.run_directory import RunDirectory, create
from steersman.journal.scoreboard import Scoreboard, unscored
from steersman.journal.state import State
from steersman.steering import Doubtful, Scores, Steering
from steersman.store import Frames, GroupWriter, Labelled
from steersman.system.errors import UnknownName
from steersman.worker.known import keep

from .mortal import Killed, Mortal

FRAMES, SEGMENTS = 2, 24
Place = tuple[int, int]  # a walker and a row


class Workers:
    """Stand for Parsl: each call takes two steps, and is answered as `worker.labelling.label` leaves it, or fails."""

    def __init__(self, calls: Counter[Place], fails: Callable[[Place, int], bool], name: str) -> None:
        self.calls, self.fails, self.name, self.most = calls, fails, name, 0
        self.judges = True  # else the error of the model cannot be measured
        self.sign = 1
        self.open: list[tuple[Future[Any], Any]] = []
        self.due: list[tuple[Future[Any], Any]] = []

    def submit(self, role: str, function: Any, *words: Any) -> Any:
        run, number, frame, _, _, known = words
        self.calls[frame] += known is None and not RunDirectory(Path(run)).answer(number).exists()
        self.open.append((Future(), (*words, self.calls[frame])))
        self.most = max(self.most, len(self.open) + len(self.due))
        return self.open[-1][0]

    def step(self) -> None:
        for future, (run, number, frame, model, _, known, call) in self.due:
            file = RunDirectory(Path(run)).answer(number)
            if known is None and not file.exists() and self.fails(frame, call):
                future.set_exception(ValueError("no convergence"))
                continue
            if known is None and not file.exists():
                file.parent.mkdir(exist_ok=True)
                values = {self.name: np.float64(frame[1] * (-1 if self.name == "x" else self.sign))}
                np.savez(file, **values)  # type: ignore[arg-type]
            if model and not self.judges:
                future.set_exception(ValueError("no error"))
                continue
            future.set_result({"node": "here", "took_s": 1.0, "error": 0.5 if model else None})
        self.due, self.open = self.open, []


class Story:
    """A walker's frames, all of them in doubt but the first two, and what was labelled of them."""

    def __init__(
        self,
        folder: Path,
        rule: Doubtful,
        *,
        labels: int = 1000,
        workers: int = 2,
        dies_after: tuple[int, ...] = (),
        fails: Callable[[Place, int], bool] = lambda frame, call: False,
        steps: int = 160,
        answers: str = "y",
        train: Any = None,
    ) -> None:
        self.directory = create(folder.parent, "labelled", folder)
        self.directory.settings_file.write_text("params: {}\nseed: 1\nsite: {}\n")
        self._frames()
        self.rule, self.calls = rule, Counter[Place]()
        self.workflow, self.left = workflow(labels, train=train), set[Place]()  # answered when a driver died
        self.workers = Workers(self.calls, fails, answers)
        self.site = load_site("laptop").model_copy(update={"labelling": Labellers(workers=workers)})
        self.site = self.site.serving(("simulation", "labelling"))
        for left in (*dies_after, 10**9):
            self.open(left)
            with closing(self.recorder.journal), suppress(Killed):
                self.label(steps)

    def open(self, left: int = 10**9) -> None:
        """A driver begins, or goes on."""
        self.recorder = Mortal(Journal(self.directory.journal), State(self.records()))
        for number, asked in self.labels.asked.items():
            if self.directory.answer(number).exists() and number not in self.labels.answers:
                self.left.add(asked.frame[:2])
        if not self.recorder.state.walkers:
            self._simulate(self.recorder)
        self.recorder.left = left

    def records(self) -> list[Record]:
        return list(read(self.directory.journal)) if self.directory.journal.exists() else []

    def _frames(self) -> None:
        self.group = GroupWriter(self.directory.frames.path / "w0")
        for row in range(FRAMES * SEGMENTS):
            self.group.append("frame", {"x": float(row), "segment": np.int32(row // FRAMES)})
        self.group.publish()

    def _simulate(self, recorder: Recorder) -> None:
        stages = ("simulate", "label")
        run = Run(workflow="x", seed=1, slots=1, stages=stages)
        recorder.record_all([run, Session(host="h", pid=1), Hired(walker=0, slot=0)])
        if not self.workflow.training:
            recorder.record(Training(model=1, frames=0))
            recorder.record(Trained(model=1, accepted=True, reason="", frames=1))
        for number in range(SEGMENTS):
            first, end = FRAMES * number, FRAMES * (number + 1)
            recorder.record(Start(start=number, seed=1, with_model=1))
            recorder.record(Began(walker=0, segment=number, start=number, first_row=first))
            recorder.record(Ended(walker=0, segment=number, start=number, first_row=first, end_row=end, how="finished"))
            recorder.record(Published(walker=0, frames=end, segments=number + 1))

    def scores(self) -> Scores:
        """Those of the newest model, which scores all frames at once."""
        state, path = self.recorder.state, self.directory.scores
        newest, board = state.models.newest, Scoreboard.load(path, state.scored_with, state.scored)
        if newest and (state.scored_with != newest or not state.scored):
            board = Scoreboard(path, newest)
            spans = board.missing(state, 10**6)
            board.add(spans, {"doubt": np.concatenate([np.arange(each.first, each.end) > 1 for each in spans]) * 1.0})
            self.recorder.record(Scored(model=newest, frames=board.frames))
        return board.scores(state) if newest else unscored(state)

    def label(self, steps: int = 160) -> None:
        self.workflow.steering = Steering(label=self.rule)
        run = Driven(
            directory=self.directory, workflow=self.workflow, params=Params(), site=self.site, recorder=self.recorder,
            seed=1,
        )  # fmt: skip
        assert self.workflow.labelling is not None
        labeller = Labeller(run, self.workflow.labelling, self.workers, lambda: 0.0)  # type: ignore[arg-type]
        for _ in range(steps):
            labeller.advance(self.scores, new=True, choose=True)
            self.workers.step()

    @property
    def labels(self) -> Labels:
        return self.recorder.state.mode(Labels)

    @property
    def otherwise(self) -> list[dict[str, Any]]:
        """What a replay asks for otherwise."""
        found = replay(self.directory, self.workflow)
        assert found["labels"] > 0
        return list(found["different_labels"])

    @property
    def stored(self) -> Labelled:
        return tables.labelled(History(self.directory))


def workflow(labels: int, *, train: Any = None, version: str = "") -> Workflow:
    made = Workflow("x", Params, stop=budget(labels=labels))
    made.simulate()(lambda p, start, out: None)
    made.label(version=version, error=lambda model, frame, answer: 0.5)(lambda p, frame: {})
    if train:
        made.train(when=train)(lambda p, frames, last: None)
    return made


RULE = Doubtful("doubt", above=0.5, most=4)


@pytest.mark.parametrize("dies_after", [(), (1,), (2, 3), (5, 4, 7), (11, 1, 1, 1), (30, 20)])
def test_each_frame_in_doubt_is_asked_once_and_its_answer_kept_whoever_dies(
    tmp_path: Path, dies_after: tuple[int, ...]
) -> None:
    """The driver dies after any record; what a worker had answered by then is not asked again."""
    story = Story(tmp_path / "run", RULE, dies_after=dies_after)
    asked = [each.frame.row for each in story.labels.asked.values()]
    assert sorted(asked) == list(range(2, FRAMES * SEGMENTS))
    assert not story.labels.waiting
    assert story.calls.total() <= len(asked) + 2 * len(dies_after), "but for calls that died with the driver"
    assert all(story.calls[frame] == 1 for frame in story.left), "an answer that lies on disk is taken"
    assert {each.error for each in story.labels.good} == {0.5}, "and is judged as any"
    np.testing.assert_array_equal(story.stored["y"], story.stored["x"])
    assert sorted(story.stored["x"]) == sorted(asked)
    assert list((story.directory.path / "answers").iterdir()) == []
    assert story.otherwise == []
    story.workflow.steering = Steering(label=Doubtful("doubt", above=2.0, most=4))
    assert len(story.otherwise) == len(asked), "another rule asks for others"


def test_calls_are_as_many_at_a_time_as_there_are_workers_and_few_wait(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, workers=2)
    waits, most = 0, 0
    for record in story.records():
        waits += isinstance(record, Asked) - (record.kind == "answered")
        most = max(most, waits)
    assert most == RULE.most
    assert story.workers.most <= 2


@pytest.mark.parametrize("labels", [1, 7, 20])
def test_a_budget_of_labels_is_spent_to_the_last_and_not_passed(tmp_path: Path, labels: int) -> None:
    """One that failed costs none of it."""
    story = Story(tmp_path / "run", RULE, labels=labels, fails=lambda frame, call: frame[1] == 5)
    assert len(story.labels.good) == labels
    assert story.recorder.state.progress(0.0).labels == labels


def test_a_call_that_fails_is_made_again_and_then_given_up_and_told_once(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, fails=lambda frame, call: frame[1] == 5 or (frame[1] == 6 and call < 3))
    assert story.calls[0, 5] == 3
    assert story.calls[0, 6] == 3
    (failed,) = (each for each in story.labels.answers.values() if each.cause)
    assert story.labels.asked[failed.label].frame.row == 5
    assert len([each for each in story.records() if isinstance(each, Note)]) == 1
    assert 6.0 in story.stored["x"]
    assert 5.0 not in story.stored["x"]
    frame = tables.labels(History(story.directory)).set_index("row")
    assert frame.loc[5, "cause"]
    assert frame.loc[7, "y"] == 7.0


def test_an_audit_of_a_frame_whose_calls_failed_has_failed_and_calls_nobody_again(tmp_path: Path) -> None:
    rule = Doubtful("doubt", above=0.5, most=4, audits=0.25)
    story = Story(tmp_path / "run", rule, fails=lambda frame, call: frame[1] // FRAMES == 2, steps=250)
    failed = [story.labels.asked[number] for number, each in story.labels.answers.items() if each.cause]
    assert sum(each.drawn for each in failed) == 1
    assert len(failed) == FRAMES + 1, "in doubt all of them, and one as an audit"
    assert max(story.calls.values()) == 3


def test_an_answer_replaces_no_column_of_the_table(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, labels=5, answers="error")
    assert set(tables.labels(History(story.directory))["error"]) == {0.5}
    assert set(story.stored["error"]) == set(story.stored["x"])


def test_audits_are_drawn_of_all_that_the_model_visited_and_judge_it(tmp_path: Path) -> None:
    """Also of what has a label, which is then their answer; a training sees none of the newest model's."""
    story = Story(tmp_path / "run", Doubtful("doubt", above=0.5, most=4, audits=0.25), steps=250)
    drawn = [each for each in story.labels.asked.values() if each.drawn]
    last = max(each.label for each in story.labels.asked.values() if not each.drawn)
    assert sum(each.label <= last for each in drawn) == pytest.approx(0.25 * last, abs=4)
    assert len(story.labels.asked) > last + 10, "idle workers audit"
    assert {each.frame.row for each in drawn} & {0, 1}, "what is in no doubt is audited, too"
    train, audits = story.labels.shared("")
    assert {each.row for each in audits} == {each.frame.row for each in drawn}
    assert {each.row for each in train}.isdisjoint({each.row for each in audits})
    assert max(story.calls.values()) == 1
    assert story.labels.bound == 0.5
    assert story.otherwise == []
    story.open()
    with closing(story.recorder.journal):
        story.recorder.record(Training(model=2, frames=48))
        story.recorder.record(Trained(model=2, accepted=True, reason="", frames=1))
        assert story.labels.bound == np.inf, "nothing is known of a model that was not audited yet"


def test_answers_keep_their_names_also_in_a_later_session(tmp_path: Path) -> None:
    """Else what one lacks would be read as NaN, or as 0."""
    story = Story(tmp_path / "run", RULE, labels=5)
    before = story.stored["y"]
    story.workers.name, story.workflow = "x", workflow(10)
    story.open()
    with closing(story.recorder.journal):
        story.label()
        assert any(each.cause for each in story.labels.answers.values())
    assert set(story.stored.answers) == {"y"}
    np.testing.assert_array_equal(story.stored["y"], before)


def test_an_answer_is_kept_and_not_asked_for_again_where_its_error_cannot_be_measured(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, steps=0)
    story.workers.judges = False
    story.open()
    with closing(story.recorder.journal):
        story.label()
        assert set(story.calls.values()) == {1}
        assert len(story.labels.good) == FRAMES * SEGMENTS - 2
        assert story.recorder.state.stages["label"].failures, "and this is told"


def test_a_frame_that_several_ask_for_at_once_is_labelled_once(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", Doubtful("doubt", above=0.5, most=20, audits=0.5), workers=8, steps=40)
    asked = Counter(each.frame for each in story.labels.asked.values())
    assert max(asked.values()) == 2, "in doubt, and as an audit"
    assert max(story.calls.values()) == 1
    audits = [each.frame[::2] for each in story.labels.asked.values() if each.drawn]
    assert len(set(audits)) == len(audits) == SEGMENTS, "one of a segment"


def test_audits_of_the_newest_model_judge_and_older_ones_are_trained_on(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, steps=0)
    story.open()
    with closing(story.recorder.journal):
        for number, model, drawn in ((0, 1, True), (1, 1, False), (2, 2, True), (3, 2, False)):
            frame = FrameId(0, 10 + number, 1)
            story.recorder.record(Asked(label=number, frame=frame, drawn=drawn, model=model))
            story.recorder.record(Answered(label=number, group="w0", row=number))
        train, audits = story.labels.shared("")
    assert [each.row for each in train] == [10, 11, 13]
    assert [each.row for each in audits] == [12]


def test_another_version_of_the_function_asks_again_and_uses_its_own_answers_alone(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE)
    before = len(story.labels.asked)
    story.workflow = workflow(1000, version="2")
    story.open()
    with closing(story.recorder.journal):
        story.label()
    assert len(story.labels.asked) == 2 * before
    for version, group in (("", "w0"), ("2", "w1")):
        assert [place.group for _, place in story.labels.usable(version)] == before * [group]


def test_what_waits_when_the_function_is_changed_is_not_answered_by_the_new_one_in_its_name(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, steps=3)
    waiting = list(story.labels.waiting)
    story.workflow, story.workers.sign = workflow(1000, version="2"), -1
    story.open()
    with closing(story.recorder.journal):
        story.label()
    assert any(story.labels.answers[each.label].cause for each in waiting)
    answers = Frames(story.directory.labels)
    for version, sign in (("", 1), ("2", -1)):
        for frame in (place for _, place in story.labels.usable(version)):
            assert answers.row(frame.group, frame.at)["y"] == sign * frame.row


def test_a_bound_by_one_version_of_the_function_is_none_by_another(tmp_path: Path) -> None:
    """Nor may audits that fail leave the bound as it is: they may be those that the model is wrong about."""
    story = Story(tmp_path / "run", Doubtful("doubt", above=2, most=4, audits=0.1), fails=lambda frame, call: call == 9)
    assert story.labels.bound == 0.5
    story.workflow = workflow(1000, version="2")
    story.open()
    with closing(story.recorder.journal):
        story.label(0)
        assert story.labels.bound == np.inf
        story.workers.fails = lambda frame, call: frame[1] // FRAMES < 4
        story.label()
        assert sum(not each.group for each in story.labels.answers.values()) == 4
        assert max(story.calls.values()) == 3 + 1, "what failed is asked for no more, also by chance"
        assert story.labels.bound == np.inf
    assert set(tables.labels(History(story.directory))["version"]) == {"", "2"}


def test_a_function_that_was_changed_is_learned_from_also_where_the_last_training_is_over(tmp_path: Path) -> None:
    rule = every(labels=10, first=6, last=6)
    story = Story(tmp_path / "run", RULE, train=rule)
    story.open()
    with closing(story.recorder.journal):
        story.recorder.record(Training(model=1, frames=48, labels=6))
        story.recorder.record(Trained(model=1, accepted=True, reason="", frames=1))
        story.label()
        assert not rule.due(story.labels.counted(""), story.labels.trained(""))
        story.workflow = workflow(1000, train=rule, version="2")
        story.label()
        assert (story.labels.counted("2"), story.labels.trained("2")) == (6, None)
        assert rule.due(6, None)
        story.recorder.record(Training(model=2, frames=48, labels=len(story.labels.good)))
        assert story.labels.trained("2") == 6


def test_a_version_of_before_the_first_training_makes_none_due(tmp_path: Path) -> None:
    """A training on labels of a function that was changed would have none of them."""
    story = Story(tmp_path / "run", RULE, train=every(labels=10, first=6, last=26))
    story.workflow = workflow(1000, train=every(labels=10, first=6, last=26), version="2")
    story.open()
    with closing(story.recorder.journal):
        assert (story.labels.counted(""), story.labels.counted("2")) == (6, 0)
        story.label()
        assert (len(story.labels.good), story.labels.counted("2")) == (12, 6)


def test_before_the_first_model_so_many_are_asked_for_at_random_as_its_training_needs(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, train=every(labels=10, first=6, last=26))
    assert len(story.labels.good) == 6
    story.open()
    with closing(story.recorder.journal):
        story.label()
        assert len(story.labels.good) == 6
        story.recorder.record(Training(model=1, frames=48, labels=6))
        story.label()
        assert len(story.labels.good) == 6, "the model that is being trained decides on the next"
        story.recorder.record(Trained(model=1, accepted=False, reason="no good"))
        story.label()
        assert len(story.labels.good) == 16, "one that is not accepted is trained again, on as many more"
        story.recorder.record(Training(model=2, frames=48, labels=16))
        story.recorder.record(Trained(model=2, accepted=True, reason="", frames=1))
        story.label()
        assert len(story.labels.good) == 26, "and its model decides on those of the next one"
        story.recorder.record(Training(model=3, frames=48, labels=26))
        story.label()
        assert len(story.labels.good) == 36, "the last model is waited for"
        story.recorder.record(Trained(model=3, accepted=True, reason="", frames=1))
        story.label()
        assert len(story.labels.good) >= FRAMES * SEGMENTS - 2, "no training comes any more"
        assert story.otherwise == []


def test_labels_from_before_are_learned_from_and_count_for_trainings_and_cost_no_budget(tmp_path: Path) -> None:
    """Each with the variables that were given with it, beside those of frames of the run."""
    story = Story(tmp_path / "run", RULE, train=every(labels=10, first=6, last=26), steps=0)
    keep(story.directory, {"labelled": {"x": np.array([-1.0, -2.0]), "y": np.array([1.0, 2.0])}})
    story.open()
    with closing(story.recorder.journal):
        story.recorder.record(Prepared(sha256="", labels=2, source="prepare"))
        story.label()
        assert len(story.labels.good) == 4, "two of the six are there"
        assert story.labels.counted("") == 6
        assert story.recorder.state.progress(0.0).labels == 4
        train, audits = story.labels.shared("")
        learned = Labelled(story.directory.frames, Frames(story.directory.labels), train)
        assert (learned.rows, audits) == (6, ())
        np.testing.assert_array_equal(learned["y"][:2], [1.0, 2.0])
        np.testing.assert_array_equal(learned["y"][2:], learned["x"][2:])
        np.testing.assert_array_equal(learned["x"][:2], [-1.0, -2.0])
        np.testing.assert_array_equal(story.stored["x"], learned["x"])
    assert [each.problem for each in verify(story.directory) if each.what == "labels"] == []


def test_a_frame_that_misses_a_variable_is_not_asked_for_at_random(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, train=every(labels=10), steps=0)
    state, stage = story.recorder.state, story.workflow.labelling
    story.workflow.steering = Steering(label=RULE)
    assert stage
    rules = story.workflow.rules(Params())
    asked = stage.wanted(state, unscored(state), rules, lambda walker, row: row > 9)
    assert {each.frame.row > 9 for each in asked} == {False}
    assert len(stage.wanted(state, unscored(state), rules, lambda walker, row: False)) == RULE.most


def test_what_no_model_will_learn_from_audits_the_last_one(tmp_path: Path) -> None:
    rule = Doubtful("doubt", above=0.5, most=4, audits=0.1)
    story = Story(tmp_path / "run", rule, train=every(labels=10, first=6, last=6))
    story.open()
    with closing(story.recorder.journal):
        story.recorder.record(Training(model=1, frames=48, labels=6))
        story.recorder.record(Trained(model=1, accepted=True, reason="", frames=1))
        story.label()
    assert len(story.labels.asked) > 20
    assert all(each.drawn for each in story.labels.asked.values() if each.model == 1)


def test_a_segment_is_audited_when_it_is_over(tmp_path: Path) -> None:
    """Else its first frames would be drawn more often than its last ones."""
    story = Story(tmp_path / "run", Doubtful("doubt", above=2, most=4, audits=0.1), steps=0)
    first, segment = FRAMES * SEGMENTS, dict[str, Any](walker=0, segment=SEGMENTS, start=SEGMENTS)
    for row in range(first, first + FRAMES):
        story.group.append("frame", {"x": float(row), "segment": np.int32(SEGMENTS)})
    story.group.publish()
    story.open()
    with closing(story.recorder.journal):
        story.recorder.record(Start(start=SEGMENTS, seed=1, with_model=1))
        story.recorder.record(Began(**segment, first_row=first))
        story.recorder.record(Published(walker=0, frames=first + FRAMES, segments=SEGMENTS))
        story.label()
        assert len(story.labels.asked) == SEGMENTS
        story.recorder.record(Ended(**segment, first_row=first, end_row=first + FRAMES, how="finished"))
        story.recorder.record(Published(walker=0, frames=first + FRAMES, segments=SEGMENTS + 1))
        story.label()
        assert len(story.labels.asked) == SEGMENTS + 1


def test_between_the_first_model_and_its_scores_nothing_is_asked_for(tmp_path: Path) -> None:
    """A frame at random is worth less than one that the model doubts, which is known in a moment."""
    story = Story(tmp_path / "run", Doubtful("later", above=0.5))
    assert not story.labels.asked


def test_where_nothing_is_in_doubt_audits_are_drawn_all_the_same(tmp_path: Path) -> None:
    """Also before the first label of the run, as where labels of before gave its model."""
    story = Story(tmp_path / "run", Doubtful("doubt", above=2, most=4, audits=0.1))
    assert len(story.labels.asked) > 10
    assert all(each.drawn for each in story.labels.asked.values())


def test_a_segment_asks_for_its_own_frame_before_any_rule(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, labels=3, steps=0)
    story.open()
    with closing(story.recorder.journal):
        first = FRAMES * SEGMENTS
        story.recorder.record(Start(start=SEGMENTS, seed=1))
        story.recorder.record(Began(walker=0, segment=SEGMENTS, start=SEGMENTS, first_row=first))
        story.recorder.record(Ended(
            walker=0, segment=SEGMENTS, start=SEGMENTS, first_row=first, end_row=first + 2, how="finished",
            asks=(0, 0, first),
        ))  # fmt: skip
        story.label()
        rows = [each.frame.row for each in story.labels.asked.values()]
        assert rows[0] == 0, "a frame that nobody can read yet waits"
        assert rows.count(0) == 1
        assert first not in rows
        story.recorder.record(Start(start=SEGMENTS + 1, seed=1))
        story.recorder.record(Began(walker=0, segment=SEGMENTS + 1, start=SEGMENTS + 1, first_row=first + 2))
        story.recorder.record(Ended(
            walker=0, segment=SEGMENTS + 1, start=SEGMENTS + 1, first_row=first + 2, end_row=first + 3, how="finished",
            asks=(0,),
        ))  # fmt: skip
        assert [frame.row for frame in story.labels.wishes] == [first], "what was asked for is not asked for again"
        assert story.otherwise == []


def test_a_person_asks_for_a_label_also_of_a_frame_whose_call_failed(tmp_path: Path) -> None:
    """After three calls nobody else asks for it again."""
    story = Story(tmp_path / "run", RULE, fails=lambda frame, call: frame[1] == 5 and call <= 3)
    story.open()
    with closing(story.recorder.journal):
        frame = next(each.frame for each in story.labels.asked.values() if each.frame.row == 5)
        assert story.calls[frame[:2]] == 3
        story.recorder.record(Tell(id="1", who="me@here", verb="label", text="", frame=frame))
        story.label()
    assert story.calls[frame[:2]] == 4
    first, again = (story.labels.answers[each.label] for each in story.labels.asked.values() if each.frame == frame)
    assert (bool(first.cause), bool(again.group)) == (True, True)
    assert "me@here" in story.labels.asked[again.label].reason


def test_labelled_frames_are_read_with_their_answers_which_hide_variables_of_the_same_name(tmp_path: Path) -> None:
    story = Story(tmp_path / "run", RULE, labels=5, answers="x")
    labelled = story.stored
    assert set(labelled) == {"x", "segment"}
    np.testing.assert_array_equal(labelled["x"], -labelled.frames["x"])
    with pytest.raises(UnknownName):
        labelled["y"]
