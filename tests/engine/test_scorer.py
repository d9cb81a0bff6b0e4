"""Scores that never come end a run at the first scoring."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman import Params, Workflow, budget, every, reached
from steersman.bus import Server, TupleSpace
from steersman.engine.driven import Driven
from steersman.engine.driver import Driver
from steersman.engine.scorer import Scorer
from steersman.executors.site_files import load_site
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, End, Ended, Hired, Note, Published, Start, Trained, Training
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering import Novelty, Opes, Policy, Redundant, Scores, Unsteered, passage


class Done:
    """Stands for the jobs: a score of each frame is there at once, or an error; nothing else is ever done."""

    broken = hopeless = ""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def submit(self, *words: Any, **__: Any) -> Future[Any]:
        job: Future[Any] = Future()
        found = [word for word in words if isinstance(word, list | tuple)]
        if found and self.error:
            job.set_exception(self.error)
        elif found:
            job.set_result({"x": np.arange(float(sum(span.rows for span in found[0])))})
        return job

    def newly_lacking(self) -> list[str]:
        return []

    end_stuck_blocks = newly_lacking


def recorder_of(folder: Path) -> Recorder:
    """Of a run with one segment of four frames."""
    recorder = Recorder(Journal(folder / "journal.jsonl"), State())
    recorder.record(Hired(walker=0, slot=0))
    more(recorder, 0)
    return recorder


def more(recorder: Recorder, number: int) -> None:
    """Four more frames."""
    recorder.record(Start(start=number, seed=1))
    recorder.record(Began(walker=0, segment=number, start=number, first_row=4 * number))
    end = 4 * number + 4
    recorder.record(Ended(walker=0, segment=number, start=number, first_row=end - 4, end_row=end, how="finished"))
    recorder.record(Published(walker=0, frames=end, segments=number + 1))


@pytest.mark.parametrize(
    ("steer", "gate", "missing"),
    [
        ({"policy": Novelty("x")}, "error", ""),
        ({"policy": Novelty("xx")}, "error", "xx"),
        ({"policy": Novelty("x"), "prune": Redundant("y")}, "error", "y"),
        ({"policy": Novelty("x"), "fallback": Novelty("z")}, "error", "z"),
        ({"policy": Novelty("x")}, "loss", "loss"),
        ({"policy": Novelty("x")}, "x", ""),
        ({"policy": Novelty("x")}, lambda model, frames: 0.0, ""),
        ({"bias": Opes("z", barrier_kT=9)}, "error", "z"),
        ({"bias": Opes("x", barrier_kT=9)}, "error", "bias"),
    ],
    ids=[
        "all there", "of the policy", "of the prune rule", "of the fallback", "of the gate", "the gate is there",
        "the gate is a function",
        "of the bias", "the energy of the bias",
    ],
)  # fmt: skip
def test_a_score_that_is_not_given_is_named_at_the_first_scoring(
    steer: dict[str, Any], gate: Any, missing: str, tmp_path: Path
) -> None:
    workflow = Workflow("x", stop=budget(frames=9))
    workflow.score()(lambda p, model, frames: {})
    workflow.steer(**steer)
    workflow.train(when=every(frames=99), gate=gate)(lambda p, frames, last: None)
    recorder = recorder_of(tmp_path)
    recorder.record_all([Training(model=1, frames=4), Trained(model=1, accepted=True, reason="the first")])
    scorer = scorer_of(tmp_path, workflow, recorder, Done())
    assert sum(step(scorer) for _ in range(3)) == 1
    assert bool(scorer.hopeless) == bool(missing)
    assert repr(missing) in scorer.hopeless or not missing


def scorer_of(
    folder: Path, workflow: Workflow, recorder: Recorder, jobs: Any, clock: Callable[[], float] = time.monotonic
) -> Scorer:
    steering = lambda: workflow.steering_rule(Params())  # noqa: E731
    return Scorer(RunDirectory(folder), workflow, steering, recorder, jobs, load_site("laptop"), clock)


def step(scorer: Scorer, *, at_once: bool = False) -> bool:
    """Whether there are new scores."""
    fresh = scorer.take()
    scorer.begin(at_once=at_once)
    return fresh


def most(scores: Scores) -> float:
    return float(scores.values["x"].max())


def end_of(folder: Path, frames: int, needs: str, error: Exception | None = None, goal: float = 1e9) -> End:
    """How a run of four frames ends, which its driver finds without scores."""
    workflow = Workflow("x", stop=budget(frames=frames) | reached("most", goal))
    workflow.metric(most)
    workflow.simulate()(lambda p, start, out: None)
    workflow.score()(lambda p, model, frames: {})
    workflow.steer(Novelty(needs))
    folder.mkdir()
    directory = RunDirectory(folder)
    directory.frames.path.mkdir()
    directory.errors.mkdir()
    if error:
        directory.traceback("scoring", 0).write_text("Traceback")
    recorder, site = recorder_of(folder), load_site("laptop")
    jobs, servers = Done(error), SimpleNamespace(look=lambda: None, look_for=lambda space: None, troubles=[])
    with Server.start(directory.bus) as server, TupleSpace.connect(server.url) as space:
        run = Driven(directory=directory, workflow=workflow, params=Params(), site=site, recorder=recorder, seed=1)
        return Driver(run, jobs, servers, space).run()  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_the_first_scores_show_ends_a_run_in_the_same_way_whether_or_not_its_budget_is_spent_before(
    tmp_path: Path,
) -> None:
    """They are made all the same, for the report."""
    late, early = (end_of(tmp_path / str(frames), frames, "xx") for frames in (4, 400))
    assert late == early
    assert (late.outcome, "'xx'" in late.reason) == ("failed", True)
    assert end_of(tmp_path / "right", 4, "x").outcome == "budget"
    assert end_of(tmp_path / "goal", 4, "x", goal=0.0).outcome == "goal", "its frames reached it, though scored late"
    broken = end_of(tmp_path / "broken", 4, "x", error=KeyError("y"))
    assert (broken.outcome, "KeyError: 'y' (see errors/scoring-0000.txt)" in broken.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("policy", "at_once", "waits"),
    [(Unsteered(), False, True), (Novelty("x"), False, False), (Unsteered(), True, False)],
)
def test_scores_that_no_start_waits_for_come_once_a_second(
    policy: Policy, at_once: bool, waits: bool, tmp_path: Path
) -> None:
    """A batch that is full does not wait, and nothing does in rounds and at the end of a run."""
    workflow = Workflow("x", stop=budget(frames=9))
    workflow.score(batch=8)(lambda p, model, frames: {})
    workflow.steer(policy)
    recorder, now = recorder_of(tmp_path), [0.0]
    jobs = Done()
    scorer = scorer_of(tmp_path, workflow, recorder, jobs, lambda: now[0])

    def scored(at_once: bool = at_once) -> int:
        for _ in range(3):
            step(scorer, at_once=at_once)
        return recorder.state.scored

    assert scored() == 4
    more(recorder, 1)
    assert scored() == (4 if waits else 8)
    now[0] += 1.0
    assert scored() == 8
    more(recorder, 2)
    assert scored(at_once=True) == 12
    more(recorder, 3)
    more(recorder, 4)
    assert scored() == 20


class Twice(Done):
    """The scores of a model are its number."""

    def submit(self, *words: Any, **__: Any) -> Future[Any]:
        job: Future[Any] = Future()
        if found := [word for word in words if isinstance(word, list | tuple)]:
            job.set_result({"x": np.full(sum(span.rows for span in found[0]), float(words[words.index(found[0]) - 1]))})
        return job


def test_the_scores_of_a_new_model_take_the_place_of_the_old_ones_once_they_are_of_all_frames(tmp_path: Path) -> None:
    """Never some of each; a model that is not accepted gives none. What comes later has the new scores alone."""
    workflow = Workflow("x", stop=budget(frames=9))
    workflow.train(when=every(frames=4))(lambda p, frames, last: None)
    workflow.score(batch=4)(lambda p, model, frames: {})
    workflow.steer(Novelty("x"))
    recorder = recorder_of(tmp_path)
    scorer = scorer_of(tmp_path, workflow, recorder, Twice())

    def scored() -> list[tuple[int, int]]:
        """The model, and how many frames have its scores, after each of some steps."""
        found = []
        for _ in range(12):
            step(scorer)
            scores = scorer.scores()
            assert scores.model == 0 or set(scores.values["x"]) == {scores.model}
            found.append((scores.model, len(scores)))
        return found

    for number in range(1, 3):
        more(recorder, number)
    for model, accepted in ((1, True), (2, False), (3, True)):
        recorder.record(Training(model=model, frames=12))
        recorder.record(Trained(model=model, accepted=accepted, reason=""))
        before, newest = scored(), model if accepted else 1
        assert before[-1] == (newest, 12)
        assert model == 1 or {each for each in before if each[0] != newest} <= {(1, 12)}
    more(recorder, 3)
    assert set(scored()) == {(3, 12), (3, 16)}


def test_scores_before_the_first_model_are_measured_and_lack_what_needs_it(tmp_path: Path) -> None:
    """With `early`: a metric that needs no model is there from the first frames on, a policy that needs one waits."""
    for early in (False, True):
        folder = tmp_path / str(early)
        folder.mkdir()
        recorder = recorder_of(folder)
        workflow = workflow_of(early=early)
        scorer = scorer_of(folder, workflow, recorder, Done())
        for _ in range(3):
            step(scorer)
        state = recorder.state
        assert state.metrics == ({"largest": [3.0]} if early else {})
        assert state.progress(0.0).measured_at == ({"largest": [4]} if early else {})
        assert (state.scored, scorer.hopeless) == (4 if early else 0, "")
        assert "metric needs_z" not in state.stages
        assert set(scorer.scores().values) == ({"x"} if early else set())
        recorder.record(Training(model=1, frames=4))
        recorder.record(Trained(model=1, accepted=True, reason="the first"))
        for _ in range(3):
            step(scorer)
        assert state.scored_with == 1
        assert "'z'" in scorer.hopeless
        assert state.stages["metric needs_z"].failures


def workflow_of(*, early: bool) -> Workflow:
    workflow = Workflow("mine", stop=budget(frames=9))
    workflow.simulate(lambda p, start, out: None)
    workflow.train(when=every(frames=1))(lambda p, frames, last: None)
    workflow.score(early=early)(lambda p, model, frames: {"x": 0})
    workflow.steer(Novelty("z"))
    workflow.metrics["largest"] = lambda scores: float(scores.values["x"].max())
    workflow.metrics["needs_z"] = lambda scores: float(scores.values["z"].max())
    return workflow


def test_why_a_metric_has_no_value_is_said_once_and_too_few_rounds_are_no_failure(tmp_path: Path) -> None:
    """Failures are counted up to the number that ends a run, though all are alike."""
    rounds, recorder, workflow = list[float](), recorder_of(tmp_path), workflow_of(early=True)

    def passage_time(scores: Scores) -> float:
        rounds.append(0.1)
        return passage(np.stack([rounds, np.zeros(len(rounds))])).value

    workflow.metrics = {"passage_time": passage_time, "fails": lambda scores: 1 / 0}
    scorer = scorer_of(tmp_path, workflow, recorder, Done())
    for _ in range(workflow.most_failures + 5):
        scorer._measure(early=False)
    [told] = [note for note in recorder.state.notes if isinstance(note, Note)]
    assert "passage_time" in told.text
    assert "it takes 10" in told.text
    assert not recorder.state.stages["metric passage_time"].failures
    assert recorder.state.stages["metric fails"].failures == workflow.most_failures
    assert recorder.state.metrics == {"passage_time": pytest.approx([10.0] * (workflow.most_failures - 13))}
