"""The workflows of diffraction on real abTEM: what is held out stays so, committees learn, and ask for patterns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Out, Start, apps
from steersman.apps.diffraction import potential
from steersman.checks.trying import tried
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.workflows import diffraction
from tests.workflows.draws import ran

TINY = {"patterns": 4, "held_out": 2, "train_every": 4, "epochs": 1}


@pytest.mark.slow
def test_a_tiny_run_judges_by_draws_that_no_training_saw(tmp_path: Path) -> None:
    state = ran("projected_potential", TINY, potential.DIMENSIONS, tmp_path, walkers=2)
    for metric in ("error", "error_of_mean"):
        assert all(0 < value < 200 for value in state.metrics[metric])


@pytest.mark.slow
@pytest.mark.parametrize("words", [("diffraction",), ("zone_axes",), ("zone_axes", "projections=1")], ids=" ".join)
def test_every_stage_of_the_classifiers_works(words: tuple[str, ...]) -> None:
    name, *assignments = words
    source = loading.find(name)
    workflow = loading.load(source)
    steps = list(tried(workflow, loading.parameters(workflow, None, ["epochs=1", *assignments]), source))
    assert [step.found for step in steps if not step.ok] == []
    assert any(step.what.startswith("figure") for step in steps)


@pytest.mark.slow
def test_a_start_without_a_draw_is_plain_sampling() -> None:
    """`compare` runs every workflow unsteered, too; then each pattern is drawn evenly, from its seed."""
    p = diffraction.Diffraction.model_validate({})
    expose: Any = diffraction.expose
    outs = [Out(seed=seed) for seed in (1, 1, 2)]
    for out in outs:
        expose(p, Start(), out)
    first, again, other = (out.stored["point"][0] for out in outs)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert ((first >= 0) & (first < 1)).all()
    drawn = Out(seed=1)
    expose(p, Start(draw={"point": other}), drawn)
    assert np.array_equal(drawn.stored["point"][0], other)


def test_without_abtem_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "abtem", None)
    for name in [name for name in sys.modules if name.startswith("steersman.apps.diffraction")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(apps, "diffraction")
    with pytest.raises(BadWorkflow) as told:
        loading.load(loading.find("diffraction"))
    assert "pip install 'steersman[diffraction]'" in str(told.value)
    assert "\n" not in str(told.value)
