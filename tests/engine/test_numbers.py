"""Numbers that go wrong are recorded and contained; the run goes on with the fallback."""

import json

import numpy as np
import pytest

from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.records import Ended, Record, Stage
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.store import Window
from tests.engine.conftest import HEAD, finished, started

pytestmark = pytest.mark.slow
WORKFLOW = """
import time
from pathlib import Path
from steersman import models
from steersman.models.errors import TrainingDiverged

TURNS = Path(__file__).with_name("turns")  # trainings may run in different processes

class Odd(Novelty):
    calls = 0
    def rank(self, scores, rng):
        Odd.calls += 1
        if Odd.calls == 2:
            raise ZeroDivisionError("no neighbours")
        if Odd.calls == 3:
            return [Candidate(10**9, "Odd", 0.0, "nonsense")]
        return super().rank(scores, rng)

wf = Workflow("odd", P, stop=lambda p: budget(frames=10**8))

@wf.simulate(retries=0)
def simulate(p, start, out):
    rng = np.random.default_rng(out.seed)
    bad = rng.random() < 0.2
    for i in range(10):
        time.sleep(0.005)
        x = rng.normal(size=2)
        out.append(x=np.array([np.nan, 0.0]) if bad and i == 5 else x)

@wf.train(when=every(frames=250, first=200))
def fit(p, frames, last):
    model = models.PCA.fit(frames["x"], latent=1)
    with TURNS.open("a") as file: turn = file.write("x") and file.tell()
    wrong = ["loss", "", "numbers", "collapsed"][turn % 4]
    if wrong == "loss": raise TrainingDiverged(3, float("nan"), 1e-3)
    if wrong == "numbers": model.mean += np.nan
    if wrong == "collapsed": model.components *= 0  # everything is one point
    return model

@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["x"])
    return {"z": z, "error": error}

wf.steer(Odd("z"))
"""
Told = tuple[RunDirectory, State, list[Record]]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Told:
    cwd = tmp_path_factory.mktemp("odd")
    (cwd / "odd.py").write_text(HEAD + WORKFLOW)
    driver = started("run", cwd / "odd.py", "--seed", 1, "--run-dir", cwd / "run", cwd=cwd)
    state = finished(driver, cwd / "run", until=has_seen_all)
    directory = RunDirectory(cwd / "run")
    return directory, state, list(journal.read(directory.journal))


def has_seen_all(state: State) -> bool:
    """Four models are judged, and the policy chooses again after it failed twice."""
    judged = [model for model in state.models if model.accepted is not None]
    return len(judged) >= 4 and [record.policy for record in state.decisions].count("Odd") >= 6


def test_a_frame_that_is_not_finite_is_not_stored_and_those_before_it_are(odd: Told) -> None:
    directory, state, records = odd
    failed = [record for record in records if isinstance(record, Ended) and record.how == "failed"]
    assert failed
    assert all("not finite in frame" in record.cause for record in failed)
    assert all(record.end_row - record.first_row == 5 for record in failed)
    assert np.isfinite(Window(directory.frames, published.spans(state))["x"]).all()


def test_a_model_that_is_no_number_or_has_collapsed_or_diverged_is_not_used(odd: Told) -> None:
    _, state, _ = odd
    good, *bad = state.models[:4]
    assert good.accepted
    assert not any(model.accepted for model in bad)
    for model, reason in zip(bad, ("is not a number", "'z' has collapsed", "the loss became nan"), strict=True):
        assert reason in model.reason
    assert state.models.newest in {model.version for model in state.models if model.accepted}


def test_a_policy_that_raises_or_proposes_nonsense_is_told_and_its_fallback_chooses(odd: Told) -> None:
    directory, state, records = odd
    failures = [record for record in records if isinstance(record, Stage) and not record.ok]
    causes = " ".join(record.cause for record in failures if record.stage == "steer")
    assert "ZeroDivisionError: no neighbours" in causes
    assert "(see errors/steer.txt)" in causes
    assert directory.traceback("steer").read_text().startswith("Traceback")
    assert "proposed frame 1000000000" in causes
    policies = {json.loads(line)["policy"] for line in directory.decisions.read_text().splitlines()}
    assert "Odd" in policies
    assert policies & {"Unsteered", "prepared"}
    assert state.end is not None
    assert state.end.outcome == "finished"
