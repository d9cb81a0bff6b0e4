"""A tiny campaign of the alloy: walkers walk accepted surrogates, and no model is fitted to its own audits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from steersman import open_run
from tests.engine.conftest import completed, steersman

TINY = {"learn": 24, "calls": 96, "measure": 400}


@pytest.mark.slow
def test_walkers_walk_accepted_surrogates_and_no_model_is_fitted_to_its_audits(tmp_path: Path) -> None:
    words = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    directory, state, _ = completed("order", "--rounds", "--seed", 1, *words, cwd=tmp_path)
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
    assert steersman("verify", directory.path, cwd=tmp_path).returncode == 0
