"""Scores that never come end a run at the first scoring."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Workflow, budget
from steersman.engine.scorer import Scorer
from steersman.executors.site_files import load_site
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Published, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering import Novelty, Redundant, SegmentRule, Unsteered


class Done:
    """Stands for the jobs: a score of each frame is there at once."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        job: Future[Any] = Future()
        job.set_result({"x": np.arange(4.0)})
        return job


@pytest.mark.parametrize(
    ("needs", "prune", "missing"),
    [("x", None, ""), ("xx", None, "xx"), ("x", Redundant("y"), "y")],
    ids=["all there", "of the policy", "of the prune rule"],
)
def test_a_score_that_is_not_given_is_named_at_the_first_scoring(
    needs: str, prune: SegmentRule | None, missing: str, tmp_path: Path
) -> None:
    workflow = Workflow("x", stop=budget(frames=9))
    workflow.score()(lambda p, model, frames: {})
    workflow.steer(Novelty(needs), fallback=Unsteered(), prune=prune)
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())
    recorder.record(Hired(walker=0, slot=0))
    recorder.record(Start(start=0, seed=1))
    recorder.record(Began(walker=0, segment=0, start=0, first_row=0))
    recorder.record(Ended(walker=0, segment=0, start=0, first_row=0, end_row=4, how="finished"))
    recorder.record(Published(walker=0, frames=4, segments=1))
    scorer = Scorer(RunDirectory(tmp_path), workflow, recorder, Done(), load_site("laptop"))  # type: ignore[arg-type]
    assert sum(scorer.advance() for _ in range(3)) == 1
    assert bool(scorer.hopeless) == bool(missing)
    assert repr(missing) in scorer.hopeless or not missing
