"""The cosmology workflow on real JaxPM: no training sees what is held out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Out, Start, apps
from steersman.apps.cosmology import DIMENSIONS, VARIABLES
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.workflows import cosmology
from tests.workflows.draws import ran

TINY = {"universes": 2, "held_out": 1, "train_every": 2, "epochs": 1, "members": 2, "width": 2, "goal": 0}


@pytest.mark.slow
def test_a_tiny_run_judges_by_universes_that_no_training_saw(tmp_path: Path) -> None:
    state = ran("cosmology", TINY, DIMENSIONS, tmp_path)
    for metric in ("error", "error_of_spectrum"):
        assert all(0 <= value < 2 for value in state.metrics[metric])


@pytest.mark.slow
def test_a_start_without_a_draw_is_plain_sampling() -> None:
    """`compare` runs every workflow unsteered, too; then each universe is drawn evenly, from its seed."""
    p = cosmology.Cosmology.model_validate({})
    evolve: Any = cosmology.evolve
    even, drawn = Out(seed=1), Out(seed=1)
    evolve(p, Start(), even)
    assert np.array_equal(even.stored["point"][0], Start().point(DIMENSIONS, seed=1))
    other = Start().point(DIMENSIONS, seed=2)
    evolve(p, Start(draw={"point": other}), drawn)
    assert np.array_equal(drawn.stored["point"][0], other)
    assert not np.array_equal(drawn.stored["density"][0], even.stored["density"][0])
    for name, variable in VARIABLES.items():
        assert drawn.stored[name][0].ndim == len(variable.dims)


@pytest.mark.parametrize("package", ["jaxpm", "pkg_resources"])
def test_without_its_extra_one_line_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    for name in [name for name in sys.modules if name.startswith("steersman.apps.cosmology")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(apps, "cosmology")
    with pytest.raises(BadWorkflow) as told:
        loading.load(loading.find("cosmology"))
    assert package in str(told.value)
    assert "pip install 'steersman[cosmology]'" in str(told.value)
    assert "\n" not in str(told.value)
