"""A tiny campaign of the alloy: walkers walk accepted surrogates, no model is fitted to its own audits, and a campaign
that was killed and goes on makes the same rows.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import psutil
import pytest

from steersman import audits, open_run
from steersman.apps import alloys
from steersman.calls.opened import Run
from steersman.engine import orphans
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering.errors import AuditsRefused
from tests.dashboard.kept import captions
from tests.engine.conftest import await_record, completed, opened, started, steersman

pytestmark = pytest.mark.slow
TINY = {"learn": 32, "calls": 80, "measure": 400}
A_ROUND_OF_MODEL_1 = 48  # frames: 32 are random, and 16 more are drawn before the next training
WORDS = (
    "order",
    "--rounds",
    "--seed",
    1,
    *(word for key, value in TINY.items() for word in ("--set", f"{key}={value}")),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, State]:
    return completed(*WORDS, "--report", cwd=tmp_path_factory.mktemp("order"))[:2]


def test_walkers_walk_accepted_surrogates_and_no_model_is_fitted_to_its_audits(
    undisturbed: tuple[RunDirectory, State],
) -> None:
    directory, state = undisturbed
    run = open_run(directory.path)
    scores, segments = run.scores, run.segments
    accepted = [0, *(model.version for model in state.models if model.accepted)]
    assert len(state.models) == 2
    with_model = segments["with_model"].loc[scores["segment"].astype(str)].to_numpy()
    assert np.array_equal(np.array(accepted)[scores["version"].astype(int)], with_model)
    for model in state.models:
        window = json.loads((directory.model(model.version) / "card.json").read_text())["window"]
        fitted = {(int(walker[1:]), row) for walker, first, end in window for row in range(first, end)}
        own = scores[with_model == model.version]
        assert len(own)
        assert not fitted & set(zip(own["walker"], own["row"], strict=True))
    assert not scores["failed"].any()
    assert set(run.metrics["interval_K"]) == {900.0}, "fewer than 100 audits are no answer"
    with pytest.raises(AuditsRefused) as refused:
        alloys.transition(scores)
    assert any(str(refused.value)[1:] in caption for caption in captions(directory).values())
    assert steersman("verify", directory.path, cwd=directory.path).returncode == 0


def told(run: Run) -> dict[str, bytes]:
    """Every score and stored variable of all frames by start and place within the segment, and what follows of them:
    which walker made a frame does not matter.
    """
    scores, stored = run.scores, run.dataset(run.scores)
    segments = run.segments.loc[scores["segment"].astype(str)]
    order = np.lexsort((scores["row"].to_numpy() - segments["first_row"].to_numpy(), segments["start"].to_numpy()))
    kept = {
        f"score {name}": scores[name].to_numpy()[order] for name in scores if name not in ("segment", "walker", "row")
    }
    kept |= {str(name): stored[name].to_numpy()[order] for name in stored}
    sorted_ = scores.iloc[order]
    kept["coverage"] = np.array([str(each) for each in audits.coverage(sorted_)])
    with pytest.raises(AuditsRefused) as refused:
        alloys.transition(sorted_)
    kept["answer"] = np.array(str(refused.value))
    return {name: column.tobytes() for name, column in kept.items()}


def test_a_campaign_whose_processes_were_all_killed_makes_the_rows_of_an_undisturbed_one(
    undisturbed: tuple[RunDirectory, State], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    driver = started("run", *WORDS, "--run-dir", run, cwd=tmp_path)
    state = await_record(run, lambda state: state.frames >= A_ROUND_OF_MODEL_1, driver=driver)
    assert state.end is None
    for process in [psutil.Process(driver.pid), *orphans.of_run(run)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    driver.wait()
    assert started("resume", run, cwd=tmp_path).wait(timeout=200) == 0
    directory, state = opened(run)
    assert len(state.sessions) == 2
    assert told(open_run(directory.path)) == told(open_run(undisturbed[0].path))
    weights = [
        [path.read_bytes() for path in sorted(each.path.glob("models/*/weights.safetensors"))]
        for each in (directory, undisturbed[0])
    ]
    assert len(weights[0]) == 2
    assert weights[0] == weights[1]
    assert steersman("verify", run, cwd=run).returncode == 0
