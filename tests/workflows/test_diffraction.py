"""The diffraction workflow on real abTEM: what is held out stays so, the committee learns, and it asks for patterns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Out, Start, apps
from steersman.apps.diffraction import DIMENSIONS
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.workflows import diffraction
from tests.workflows.draws import ran

TINY = {"patterns": 40, "held_out": 20, "train_every": 20, "epochs": 4, "members": 2, "goal": 0}


@pytest.mark.slow
def test_a_tiny_run_judges_by_draws_that_no_training_saw(tmp_path: Path) -> None:
    state = ran("diffraction", TINY, DIMENSIONS, tmp_path)
    assert all(0 <= value <= 1 for value in state.metrics["error_rate"])


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
