"""A campaign whose model is trained on two ranks, real in all its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import WriteWorkflow, completed

pytestmark = pytest.mark.slow

BODY = """
import os
from steersman.models import CVAE

wf = Workflow("mine", P, stop=budget(frames=340))

@wf.simulate()
def segment(p, start, out):
    random = np.random.default_rng(out.seed)
    for _ in range(p.steps):
        maps = random.random((6, 6)) < 0.4
        out.append(time=0.0, contacts=maps | maps.T)
        if out.stopped: break

@wf.train(when=every(frames=200, first=100), ranks=2, strategy="local_sgd")
def fit(p, frames, last):
    if last is not None and os.environ["RANK"] == "1":
        os._exit(7)
    return CVAE.fit(frames["contacts"], latent=2, channels=4, batch=32, epochs=2, init=last)

@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["contacts"])
    return {"z": z, "error": error}

wf.steer(Novelty("z"), explore=0.5)
"""


def test_two_ranks_train_and_a_rank_that_dies_leaves_the_last_model(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """The first model is made by both; then one dies: the run goes on with the first and says why."""
    directory, state, _ = completed(write_workflow(BODY), "--seed", 1, "--rounds", cwd=tmp_path, code=None)
    first, *later = state.models
    card = directory.card(first.version)
    assert first.accepted
    assert card is not None
    assert all(record["SyncTime"] > 0 for record in card["history"])
    assert later
    assert not any(model.accepted for model in later)
    assert "rank 1: exit code 7" in later[0].reason
    assert state.frames >= 300
    assert not (directory.errors / "training-0001").exists()
    assert (directory.errors / "training-0002" / "rank1.stderr").exists()
