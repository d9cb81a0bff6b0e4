"""What becomes of trainings."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from steersman.engine.learner import Learner

from steersman.executors.site import Site
from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages.workflow import Params, Workflow, every
from steersman.steering import budget
from steersman.worker.errors import BlockEnds


def test_a_training_that_waits_for_the_next_block_is_told_of_once(tmp_path: Path) -> None:
    """It is tried every two seconds, for as long as half an hour."""
    workflow = Workflow("waits", Params, stop=budget(frames=1))
    workflow.train(when=every(frames=1))(lambda params, frames, last: None)
    directory = RunDirectory(tmp_path)
    recorder = Recorder(Journal(directory.journal), State())
    recorder.record("training", model=1, frames=5)
    jobs: Any = SimpleNamespace(submit=lambda *_: None)
    learner = Learner(directory, workflow, Params(), recorder, jobs, Site(name="here"), serial=False)
    for left_s in (60.0, 58.0, 56.0):
        learner._training = Future()
        learner._training.set_exception(BlockEnds(100.0, left_s))
        learner.advance()
        assert learner.busy
    assert [record.kind for record in journal.read(directory.journal)] == ["training", "note"]
