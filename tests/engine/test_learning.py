"""Trainings and scorings of a run on a clock of their own: whatever they take, steering has scores."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Params, Workflow, budget, every
from steersman.engine.driven import Driven
from steersman.engine.learning import Learning
from steersman.executors.site import Site
from steersman.executors.site_files import load_site
from steersman.executors.workers import Trainers
from steersman.journal.file import Journal, read
from steersman.journal.recorder import Recorder
from steersman.journal.records import Answered, Began, Hired, Note, Published, Scored, Start, Trained
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering import Doubtful, Novelty
from steersman.store import Span
from steersman.worker import labelling
from steersman.worker.training_job import TrainingJob

FRAME_S, STEP_S = 1.0, 0.1


class Pool:
    """Stands for Parsl with workers that take jobs one after another: a training takes so long, a scoring so long."""

    def __init__(self, workers: int, training_s: float, scoring_s: float, label_s: float = 0.0) -> None:
        self.label_s = label_s
        self.free, self.training_s, self.scoring_s, self.now = [0.0] * workers, training_s, scoring_s, 0.0
        self.waiting: list[tuple[float, Future[Any], Any]] = []

    def submit(self, role: str, function: Any, *words: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(words[0], TrainingJob):
            rows = sum(span.rows for span in words[0].window)
            takes = self.training_s
            result: Any = {"history": [], "frames": rows, "accepted": True, "reason": ""}
        elif function is labelling.label:
            file = RunDirectory(Path(words[0])).answer(words[1])
            file.parent.mkdir(exist_ok=True)
            np.savez(file, y=1.0)
            takes, result = self.label_s, {}
        else:
            spans: Iterable[Span] = words[2]
            takes, result = self.scoring_s, {"x": np.full(sum(span.rows for span in spans), float(words[1]))}
        worker = self.free.index(min(self.free))
        self.free[worker] = max(self.now, self.free[worker]) + takes
        self.waiting.append((self.free[worker], future, result))
        return future

    def go_to(self, now: float) -> None:
        self.now = now
        for due, future, result in self.waiting:
            if due <= now and not future.done():
                future.set_result(result)


class Story:
    """A walker that publishes a frame a second, and learns from them; all that was recorded, with times."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        training_s: float,
        scoring_s: float,
        batch: int,
        for_s: float,
        label_s: float = 0.0,
    ) -> None:
        pool, now = Pool(workers, training_s, scoring_s, label_s), [0.0]
        recorder = Recorder(Journal(folder / "journal.jsonl", clock=lambda: now[0]), State())
        workflow = Workflow("x", Params, stop=budget(frames=10**9))
        workflow.simulate()(lambda p, start, out: None)
        workflow.train(when=every(frames=1))(lambda p, frames, last: None)
        workflow.score(batch=batch)(lambda p, model, frames: {})
        workflow.steer(Novelty("x"), label=Doubtful("x", above=-1.0) if label_s else None)
        if label_s:
            workflow.label()(lambda p, frame: {})
        changed = {"training": Trainers(workers=workers), "labelling": None}
        site: Site = load_site("laptop").model_copy(update=changed)
        run = Driven(
            directory=RunDirectory(folder), workflow=workflow, params=Params(), site=site, recorder=recorder, seed=1
        )
        learning, rule = Learning(run, pool, clock=lambda: now[0]), every(frames=1)  # type: ignore[arg-type]
        recorder.record_all([Hired(walker=0, slot=0), Start(start=0, seed=1)])
        recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
        for step in range(int(for_s / STEP_S)):
            now[0] = step * STEP_S
            pool.go_to(now[0])
            if (frames := int(now[0] / FRAME_S)) > recorder.state.frames:
                recorder.record(Published(walker=0, frames=frames, segments=0))
            learning.advance(rule)
        self.state, self.records = recorder.state, list(read(recorder.journal.path))

    def of(self, kind: type) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]

    def waits(self) -> list[float]:
        """(n,) how long each frame waited until the scores in use had it, of those that they had in the end."""
        most, times = 0, []
        for record in self.of(Scored):
            times += [record.t - FRAME_S * (frame + 1) for frame in range(most, record.frames)]
            most = max(most, record.frames)
        return times

    def ages(self) -> list[int]:
        """How many models newer than that of the scores in use there were, at each moment at which a model came."""
        ages, scored_with = [], 0
        for record in self.records:
            if isinstance(record, Scored):
                scored_with = record.model
            elif isinstance(record, Trained) and scored_with:
                ages.append(record.model - scored_with)
        return ages


@pytest.mark.parametrize("batch", [50, 10_000])
@pytest.mark.parametrize(("training_s", "scoring_s"), [(8.0, 3.0), (3.0, 8.0), (20.0, 1.0)])
def test_with_one_worker_for_both_a_frame_waits_for_a_training_and_two_batches(
    tmp_path: Path, training_s: float, scoring_s: float, batch: int
) -> None:
    """A training is due whenever one ends. The scores in use are at most two models old, and each model is used."""
    story = Story(tmp_path, 1, training_s, scoring_s, batch, for_s=400.0)
    first = story.of(Trained)[0].t
    assert max(story.waits()) <= first + training_s + 3 * scoring_s + 1.0  # the third one is that of the frame
    late = [record for record in story.of(Scored) if record.t > 100.0]
    assert max(np.diff([record.t for record in late])) <= training_s + 2 * scoring_s + 1.0
    assert max(story.ages()) <= 2
    assert {record.model for record in story.of(Scored)} >= {record.model for record in story.of(Trained)[:-2]}


@pytest.mark.parametrize("label_s", [2.0, 10.0])
def test_with_one_worker_for_all_three_each_gets_its_turn(tmp_path: Path, label_s: float) -> None:
    """Whatever a label takes: of three jobs in a row one is no label, and none of them waits for long."""
    story = Story(tmp_path, 1, 4.0, 2.0, batch=10_000, for_s=800.0, label_s=label_s)
    late = [each for each in story.records if isinstance(each, Scored | Trained | Answered) and each.t > 100.0]
    kinds = [type(each) for each in late]
    assert (Answered,) * 3 not in zip(kinds, kinds[1:], kinds[2:], strict=False)
    for kind in (Scored, Trained, Answered):
        gaps = np.diff([100.0, *(each.t for each in late if isinstance(each, kind)), 800.0])
        assert gaps.max() <= 2 * (4.0 + 2 * 2.0 + 4 * label_s), kind
    assert max(story.ages()) <= 2


def test_with_workers_of_its_own_a_scoring_that_was_begun_is_used_whatever_model_comes(tmp_path: Path) -> None:
    """To score all takes ten times as long as a training, and longer each time: every second batch is of new frames."""
    story = Story(tmp_path, 2, training_s=2.0, scoring_s=2.0, batch=20, for_s=600.0)
    used = [record.model for record in story.of(Scored)]
    assert used == sorted(used), "never an older model's again"
    assert len(set(used)) >= 4
    changed = [
        after
        for before, after in zip(story.of(Scored), story.of(Scored)[1:], strict=False)
        if before.model != after.model
    ]
    assert all(record.frames > 0 for record in changed)
    frames = [record.frames for record in story.of(Scored)]
    assert frames == sorted(frames), "no frame loses its score"
    assert max(wait for wait in story.waits()[20:]) <= 2.0 + 3 * 2.0 + 1.0


def test_frames_that_come_faster_than_they_are_scored_do_not_keep_a_newer_model_away(tmp_path: Path) -> None:
    """The backlog is told: how many wait and since when, in notes that become rarer, and by the state."""
    story = Story(tmp_path, 2, training_s=2.0, scoring_s=20.0, batch=10, for_s=2000.0)
    assert len({record.model for record in story.of(Scored)}) >= 3
    assert story.state.waiting > 100
    assert story.state.waits_s(2000.0) == pytest.approx(2000.0 - FRAME_S * (story.state.scored + 1), abs=20.0)
    notes = [note.t for note in story.of(Note)]
    assert 2 <= len(notes) <= 6
    assert all(later > 1.5 * earlier for earlier, later in pairwise(notes))
