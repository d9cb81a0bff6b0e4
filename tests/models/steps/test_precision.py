"""Half precision ends where single precision ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from steersman.models import CVAE
from steersman.models.fitting.fit import fit
from steersman.models.steps.precision import Precision
from steersman.system.errors import UnknownName
from tests.models.mean_model import Small, fresh, rows, squared

Chains = Callable[..., np.ndarray]
SEEDS = range(4)


@pytest.mark.slow
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


def test_tf32_on_a_cpu_is_fp32_and_says_so() -> None:
    """The same weights bit for bit; torch's settings are left as they were."""
    before = torch.get_float32_matmul_precision()
    tf32, fp32 = (
        fit(fresh(), rows(), squared, epochs=2, batch=16, lr=0.02, precision=word) for word in ("tf32", "fp32")
    )
    assert all(map(torch.equal, tf32.parameters(), fp32.parameters()))
    assert tf32.card["precision"] == "fp32"
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("word", ["tf32", "fp32"])
def test_a_gpu_s_units_for_tf32_are_used_where_they_were_asked_for(word: str) -> None:
    """Also by convolutions, which torch else lets use them always; torch's settings are put back. A GPU is not needed
    to set them."""
    before = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    with Precision(word, torch.device("cuda")).set():
        inside = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    assert inside == (("high", True) if word == "tf32" else ("highest", False))
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize(("precision", "scaled", "learns"), [
    ("bf16", True, True), ("fp16", True, True), ("fp16", False, False),
])  # fmt: skip
def test_fp16_needs_its_loss_scaled_where_bf16_does_not(
    precision: str, scaled: bool, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of a millionth, most of whose gradients fp16 (least 6e-8) rounds to zero: the same end as in fp32, or not.

    Adam's steps do not depend on the loss's size; a tenth is many times what half precision changes.
    """
    if not scaled:
        scaler = torch.amp.GradScaler
        monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: scaler(device, enabled=False))
    half, single = _tiny(precision), _tiny("fp32")
    assert single[-1] < 0.5 * single[0]
    assert (abs(half[-1] - single[-1]) < 0.1 * single[0]) is learns


def _tiny(precision: str) -> list[float]:
    def loss(model: Small, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": 1e-6 * squared(model, batch)["loss"]}

    history = fit(fresh(), rows(), loss, epochs=60, batch=16, lr=0.02, precision=precision).history
    return [record["loss"] for record in history]


def test_an_unknown_precision_is_told_with_those_there_are(chains: Chains) -> None:
    with pytest.raises(UnknownName, match="precision 'fp8'"):
        _trained(chains(64, 10), 0, "fp8")


def _trained(maps: np.ndarray, seed: int, precision: str, epochs: int = 8) -> CVAE:
    return CVAE.fit(maps, epochs=epochs, channels=8, batch=64, seed=seed, precision=precision)
