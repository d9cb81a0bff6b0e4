"""Numbers that go wrong are recorded and contained; the run goes on with the fallback."""

import json

import numpy as np
import pytest

from steersman.engine import journal
from steersman.engine.journal import Record
from steersman.engine.run_directory import RunDirectory
from steersman.engine.state import State
from steersman.store import Window

from .conftest import HEAD, completed

pytestmark = pytest.mark.slow
WORKFLOW = """
import time
from steersman.models import PCA

class Odd(Novelty):
    calls = 0
    def rank(self, scores, rng):
        Odd.calls += 1
        if Odd.calls == 2:
            raise ZeroDivisionError("no neighbours")
        if Odd.calls == 3:
            return [Candidate(10**9, "Odd", 0.0, "nonsense")]
        return super().rank(scores, rng)

wf = Workflow("odd", P, stop=lambda p: budget(frames=1600))

@wf.simulate(retries=0)
def simulate(p, start, out):
    rng = np.random.default_rng(out.seed)
    bad = rng.random() < 0.2
    for i in range(10):
        time.sleep(0.005)
        x = rng.normal(size=2)
        out.append(x=np.array([np.nan, 0.0]) if bad and i == 5 else x)

@wf.train(when=every(frames=300, first=200))
def fit(p, frames, last):
    model = PCA.fit(frames["x"], latent=1)
    turn = len(frames["x"]) // 270 % 3 if last else -1  # the first one is good
    if turn == 0:
        model.mean += np.nan           # a NaN loss, then NaN everywhere
    if turn == 1:
        model.components *= 0          # a collapsed latent space: everything is the same point, and the error is large
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
    directory, state, _ = completed(cwd / "odd.py", "--seed", 1, cwd=cwd)
    return directory, state, list(journal.read(directory.journal))


def test_a_frame_that_is_not_finite_is_not_stored_and_those_before_it_are(odd: Told) -> None:
    directory, state, records = odd
    failed = [record for record in records if record["kind"] == "ended" and record["how"] == "failed"]
    assert failed
    assert all("x is not finite" in record["cause"] for record in failed)
    assert all(record["end_row"] - record["first_row"] == 5 for record in failed)
    assert np.isfinite(Window(directory.frames, state.spans())["x"]).all()


def test_a_model_that_is_not_a_number_or_has_collapsed_is_not_used(odd: Told) -> None:
    directory, state, _ = odd
    verdicts = {model.reason.split(" 0")[0] for model in state.models if not model.accepted}
    assert state.models[0].accepted
    assert verdicts, [model.reason for model in state.models]
    for card in directory.cards():
        assert card["accepted"] or "not a number" in card["reason"] or "worse than" in card["reason"]
    assert state.model in {model.version for model in state.models if model.accepted}


def test_a_policy_that_raises_or_proposes_nonsense_is_told_and_its_fallback_chooses(odd: Told) -> None:
    directory, state, records = odd
    notes = " ".join(record["text"] for record in records if record["kind"] == "note")
    assert "ZeroDivisionError: no neighbours" in notes
    assert "proposed frame 1000000000" in notes
    policies = {json.loads(line)["policy"] for line in directory.decisions.read_text().splitlines()}
    assert {"Odd", "Random"} <= policies
    assert state.end is not None
    assert state.end["outcome"] == "budget"
