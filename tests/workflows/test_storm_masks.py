"""The workflow of storm masks on real flows: what is held out stays so, and both networks learn from what was drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab import storm_masks as ablation
from steersman import Out, Start
from steersman.apps import storms
from steersman.stages.kinds.train import Train
from steersman.workflows import storm_masks
from tests.workflows.draws import ran

TINY: dict[str, Any] = {"flows": 10, "held_out": 4, "train_every": 8, "epochs": 1, "width": 5 / 32}


@pytest.mark.slow
def test_a_tiny_run_judges_by_flows_that_no_training_saw(tmp_path: Path) -> None:
    state = ran("storm_masks", TINY, storms.DIMENSIONS, tmp_path)
    for name in ("cyclones", "rivers"):
        assert all(0 <= value <= 1 for value in state.metrics[name])
    assert Train.shown(state, alive=False).counts["ranks"] == "2"
    every_arm_of_the_ablation_is_trained_on_the_run(tmp_path / "run", tmp_path)


def every_arm_of_the_ablation_is_trained_on_the_run(run: Path, folder: Path) -> None:
    """`python -m lab.storm_masks`: a row for each arm, and one figure; what is there is not trained again."""
    results, figure = folder / "masks.jsonl", folder / "masks.png"
    words = [run, "--results", results, "--figure", figure, "--epochs", 1, "--flows", 4, "--seeds", 1]
    for _ in range(2):
        ablation.main(list(map(str, words)))
    rows = list(ablation.read(results))
    assert [row["arm"] for row in rows] == list(ablation.ARMS)
    assert all(0 <= row[name] <= 1 for row in rows for name in ("cyclone", "river"))
    assert figure.stat().st_size > 10_000


@pytest.mark.slow
def test_stages_fit_together_with_either_network_and_either_channels() -> None:
    """A start without a draw is plain sampling, from its seed; a drawn one is that flow."""
    stir, fit, doubt = (getattr(storm_masks, name) for name in ("stir", "fit", "doubt"))
    plain = storm_masks.StormMasks.model_validate({"epochs": 1, "members": 2, "width": 5 / 32})
    outs: list[Any] = [Out(seed=seed, seconds=100) for seed in (1, 2)]
    for out, draw in zip(outs, ({}, {"point": np.zeros(storms.DIMENSIONS)}), strict=True):
        stir(plain, Start(draw=draw), out)
    frames = {name: np.concatenate([out.stored[name] for out in outs]) for name in outs[0].stored}
    assert np.array_equal(frames["point"][0], Start().point(storms.DIMENSIONS, 1))
    assert not frames["point"][1].any()
    for network, channels in (("tiramisu", "all"), ("deeplab", "indirect")):
        p = plain.model_copy(update={"network": network, "channels": channels})
        scores = doubt(p, fit(p, frames, None), frames)
        assert scores["confusion"].sum() == scores["rule"].sum() == frames["mask"].size
        assert (scores["disagreement"] > 0).all()
        iou = storms.pooled(scores, np.ones(2, bool))
        assert set(iou) == set(storms.CLASSES)
