"""When a training begins: when it is due, and there is time for it."""

from __future__ import annotations

import math
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from parsl.executors.high_throughput.errors import WorkerLost

from steersman.engine.trainer import Trainer
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Hired, Note, Published, Start, Trained, Training
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages.kinds.train import Train
from steersman.stages.rules import Every, until_used
from steersman.worker.errors import JudgingFailed
from steersman.worker.training_job import TrainingJob

FIRST_TOOK_S = 60.0


class Jobs:
    """Takes jobs; they never end, or fail at once, or end with a card."""

    def __init__(self, error: Exception | None = None, card: dict[str, Any] | None = None) -> None:
        self.begun: list[TrainingJob] = []
        self.futures: list[Future[Any]] = []
        self.error, self.card = error, card

    def submit(self, role: str, function: Any, job: TrainingJob, **_: Any) -> Future[Any]:
        self.begun.append(job)
        future: Future[Any] = Future()
        self.futures.append(future)
        if self.error:
            future.set_exception(self.error)
        if self.card:
            future.set_result(self.card)
        return future


def recorder_of(folder: Path) -> Recorder:
    """Of a run with twenty frames."""
    recorder = Recorder(Journal(folder / "journal.jsonl"), State())
    recorder.record(Hired(walker=0, slot=0))
    recorder.record(Start(start=0, seed=1))
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Published(walker=0, frames=20, segments=0))
    return recorder


@pytest.mark.parametrize(("left_s", "begins"), [(1.5 * FIRST_TOOK_S, False), (2.5 * FIRST_TOOK_S, True)])
def test_what_would_take_longer_than_is_left_does_not_begin(tmp_path: Path, left_s: float, begins: bool) -> None:
    """Twice the frames of the first training take twice as long."""
    recorder, jobs = recorder_of(tmp_path), Jobs()
    recorder.record(Training(model=1, frames=10))
    recorder.record(Trained(model=1, accepted=True, reason="the first model", seconds=FIRST_TOOK_S, frames=10))
    trainer = Trainer(RunDirectory(tmp_path), Train(lambda: None, None), recorder, jobs)  # type: ignore[arg-type]
    trainer.advance(Every(frames=10, first=10), left_s)
    assert trainer.busy is begins
    assert [job.needs_s for job in jobs.begun] == [2 * FIRST_TOOK_S] * begins


def test_a_training_whose_worker_is_lost_at_once_takes_the_same_frames_again(tmp_path: Path) -> None:
    """Else the next one is due at once, and of the same frames."""
    recorder, jobs = recorder_of(tmp_path), Jobs(WorkerLost(0, "here"))
    trainer = Trainer(RunDirectory(tmp_path), Train(lambda: None, None), recorder, jobs)  # type: ignore[arg-type]
    for _ in range(2):
        trainer.advance(Every(frames=10, first=10))
        recorder.record(Published(walker=0, frames=recorder.state.frames + 20, segments=0))
    trainer.advance(Every(frames=10, first=10))
    assert [sum(span.rows for span in job.window) for job in jobs.begun] == [20, 20]


def test_it_trains_until_a_model_is_used_and_has_no_bar_at_the_last_number_of_frames(tmp_path: Path) -> None:
    """So a run that waits for a model gets one; where that is not used either, it tries on."""
    recorder, jobs = recorder_of(tmp_path), Jobs()
    stage, rule = Train(lambda: None, None, most=0.4), until_used(first=20, last=100)
    trainer = Trainer(RunDirectory(tmp_path), stage, recorder, jobs)  # type: ignore[arg-type]
    trained = dict[int, float | None]()
    card = {"history": [], "frames": 10, "reason": "", "accepted": False}
    for frames in range(20, 900, 10):
        recorder.record(Published(walker=0, frames=frames, segments=0))
        jobs.card = {**card, "accepted": frames >= 390}
        trainer.advance(rule)
        if len(jobs.begun) > len(trained):
            trained[frames] = jobs.begun[-1].most
        trainer.advance(rule, begin=False)
    assert trained == {20: 0.4, 40: 0.4, 80: 0.4, 100: None, 200: None, 400: None}


def test_frames_that_are_held_out_make_no_training_due(tmp_path: Path) -> None:
    """They are simulated first; without others there is nothing to train on. The last training has all others."""
    recorder, jobs = Recorder(Journal(tmp_path / "journal.jsonl"), State()), Jobs()
    recorder.record(Hired(walker=0, slot=0))
    trainer = Trainer(RunDirectory(tmp_path), Train(lambda: None, None), recorder, jobs)  # type: ignore[arg-type]
    jobs.card = {"history": [], "frames": 10, "reason": "", "accepted": False}
    begun = []
    for segment, held_out in enumerate([True] * 3 + [False] * 8):
        recorder.record(Start(start=segment, seed=1, held_out=held_out))
        recorder.record(Began(walker=0, segment=segment, start=segment, first_row=10 * segment))
        recorder.record(Published(walker=0, frames=10 * (segment + 1), segments=segment))
        trainer.advance(Every(frames=20, first=20, last=40))
        begun.append(len(jobs.begun))
        trainer.advance(Every(frames=20, first=20, last=40), begin=False)
    assert begun == [0] * 4 + [1] * 2 + [2] * 5
    assert [sum(span.rows for span in job.window) for job in jobs.begun] == [20, 40]


def test_a_warning_of_a_training_is_noted_once(tmp_path: Path) -> None:
    recorder, jobs = recorder_of(tmp_path), Jobs()
    trainer = Trainer(RunDirectory(tmp_path), Train(lambda: None, None), recorder, jobs)  # type: ignore[arg-type]
    card = {"history": [], "frames": 10, "accepted": True, "reason": "the first model"}
    for warning in ("", "the gate is no gate", "the gate is no gate"):
        trainer.advance(Every(frames=1, first=1))
        jobs.futures[-1].set_result(card | {"warning": warning})
        trainer.advance(Every(frames=1000, first=1))
        recorder.record(Published(walker=0, frames=recorder.state.frames + 20, segments=0))
    assert [model.accepted for model in recorder.state.models] == [True] * 3
    assert [note.text for note in recorder.state.notes if isinstance(note, Note)] == ["the gate is no gate"]


@pytest.mark.parametrize(
    ("error", "failed", "worked"),
    [(ValueError("no such layer"), "train", []), (JudgingFailed("KeyError: 'y'"), "score", ["train"])],
)
def test_the_stage_that_failed_in_a_training_is_named_with_its_traceback(
    error: Exception, failed: str, worked: list[str], tmp_path: Path
) -> None:
    """Before there is a model it is tried again with the same frames, but not while the run ends."""
    recorder, jobs, directory = recorder_of(tmp_path), Jobs(error), RunDirectory(tmp_path)
    directory.errors.mkdir()
    trainer = Trainer(directory, Train(lambda: None, None), recorder, jobs)  # type: ignore[arg-type]

    def advanced(left_s: float = math.inf) -> int:
        for _ in range(2):
            trainer.advance(Every(frames=10, first=10), left_s)
        return len(jobs.begun)

    directory.traceback("training", 1).write_text("Traceback")
    assert advanced() == 1
    assert [name for name, stage in recorder.state.stages.items() if stage.worked] == worked
    assert "(see errors/training-0001.txt)" in recorder.state.stages[failed].cause
    assert str(error) in recorder.state.models[0].reason
    assert advanced(left_s=60.0) == 1
    assert advanced() == 2, "its worker was lost, say: nothing lies there"
    assert "errors/" not in recorder.state.stages[failed].cause


@pytest.mark.parametrize(("ranks", "notes"), [(1, 1), (2, 0)])
def test_trainings_on_fewer_ranks_than_were_asked_for_are_noted_once(tmp_path: Path, ranks: int, notes: int) -> None:
    """Each of the next says the same."""
    card = {"frames": 20, "history": [], "accepted": True, "reason": "better", "seconds": 1.0, "ranks": ranks}
    recorder, jobs = recorder_of(tmp_path), Jobs(card=card)
    stage = Train(lambda: None, None, ranks=2, strategy="ddp")
    trainer = Trainer(RunDirectory(tmp_path), stage, recorder, jobs)  # type: ignore[arg-type]
    for _ in range(4):
        trainer.advance(Every(frames=10, first=10))
        recorder.record(Published(walker=0, frames=recorder.state.frames + 20, segments=0))
    assert len(recorder.state.models) == 2
    assert len(recorder.state.notes) == notes
