"""The largest batch that memory allows, and what is said of one that it does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from steersman.benchmarks.train import chains
from steersman.models import CVAE, largest_batch
from steersman.models.cvae import elbo
from steersman.models.errors import OutOfMemory
from steersman.models.fit import fit
from steersman.models.memory import peak_bytes, peak_of_a_step, reset_peak
from tests.models.mean_model import Small, fresh, rows, squared

CPU = torch.device("cpu")
ROOM = 96 * 2**20  # many times what Python itself comes and goes with


def test_the_largest_batch_fits_and_one_a_quarter_larger_does_not() -> None:
    """Measured again; the network is left as it was."""
    model, maps = CVAE(28, strides=(1, 1, 1), channels=16, hidden=16), chains(600, 28)
    before = [parameter.clone() for parameter in model.parameters()]
    peak_of_a_step(model, maps[:1], elbo, "adam", "fp32")  # libraries are loaded now
    reset_peak(CPU)
    cap = int(peak_bytes(CPU)) + ROOM
    found = largest_batch(model, maps, elbo, memory_bytes=cap)
    assert 10 < found < 450
    assert peak_of_a_step(model, maps[:found], elbo, "adam", "fp32") <= cap + ROOM / 8
    assert peak_of_a_step(model, maps[: found * 5 // 4], elbo, "adam", "fp32") > cap
    assert all(map(torch.equal, model.parameters(), before))


def test_data_or_nothing_may_be_the_limit() -> None:
    """All of few samples; not one where there is no memory at all."""
    assert largest_batch(fresh(), rows(), squared, memory_bytes=2**40) == 96
    with pytest.raises(OutOfMemory, match=r"batch of 1 .* needs more than 1,000 bytes"):
        largest_batch(fresh(), rows(), squared, memory_bytes=1000)


def test_a_batch_that_does_not_fit_is_told() -> None:
    """Torch is really asked for a petabyte; with the batch and what to do."""

    def loss(model: Small, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": squared(model, batch)["loss"] + torch.empty(2**50).sum()}

    with pytest.raises(OutOfMemory, match=r"in a batch of 16 .*allocate memory.*; use a smaller batch"):
        fit(fresh(), rows(), loss, epochs=1, batch=16, lr=0.1)
