"""Half precision ends where single precision ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from steersman.models import CVAE
from steersman.models.errors import UnknownChoice

Chains = Callable[..., np.ndarray]
SEEDS = range(4)


def test_bf16_ends_within_the_seeds_spread_of_fp32(chains: Chains) -> None:
    """Held-out loss, means over four seeds, against the range of the four in fp32."""
    maps, held_out = chains(600, 10), chains(300, 10, seed=9)
    losses = {
        precision: [_trained(maps, seed, precision).evaluate(held_out)["loss"] for seed in SEEDS]
        for precision in ("fp32", "bf16")
    }
    spread = max(losses["fp32"]) - min(losses["fp32"])
    assert abs(np.mean(losses["bf16"]) - np.mean(losses["fp32"])) <= spread
    assert losses["bf16"] != losses["fp32"]


def test_weights_stay_single_precision(chains: Chains) -> None:
    """Only products are computed in bf16."""
    model = _trained(chains(64, 10), 0, "bf16", epochs=1)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_fp16_is_refused_on_a_cpu(chains: Chains) -> None:
    """It has no fast one; on a GPU the loss is scaled."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UnknownChoice, match="precision on cpu 'fp16': choose from fp32, bf16"):
        _trained(chains(64, 10), 0, "fp16")


def _trained(maps: np.ndarray, seed: int, precision: str, epochs: int = 8) -> CVAE:
    return CVAE.fit(maps, epochs=epochs, channels=8, batch=64, seed=seed, precision=precision)
