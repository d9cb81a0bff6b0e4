"""The largest batch that memory allows, and what is said of one that it does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from steersman.models import largest_batch
from steersman.models.errors import OutOfMemory
from steersman.models.fitting.fit import fit
from steersman.models.fitting.memory import peak_bytes, peak_of_a_step, reset_peak
from tests.models.mean_model import Small, fresh, rows, squared

CPU = torch.device("cpu")
ROOM = 256 * 2**20  # many times what Python and the C library come and go with


def wide(model: Small, batch: Tensor) -> dict[str, Tensor]:
    """A loss that computes little and keeps about a megabyte a sample for its backward pass."""
    x_BN = model.layers(batch[:, :8]).expand(-1, 2**16)
    for _ in range(4):
        x_BN = torch.tanh(x_BN)
    return {"loss": x_BN.mean()}


@pytest.mark.slow
def test_the_largest_batch_fits_and_one_a_quarter_larger_does_not() -> None:
    """Measured again, to what the C library keeps for itself; the network is left as it was."""
    model, data = fresh(), rows(1000)
    before = [parameter.clone() for parameter in model.parameters()]
    peak_of_a_step(model, data[:1], wide, "adam", "fp32")  # libraries are loaded now
    reset_peak(CPU)
    cap = int(peak_bytes(CPU)) + ROOM
    found = largest_batch(model, data, wide, memory_bytes=cap)
    assert 50 < found < 800
    assert peak_of_a_step(model, data[:found], wide, "adam", "fp32") <= cap + ROOM / 8
    assert peak_of_a_step(model, data[: found * 5 // 4], wide, "adam", "fp32") > cap
    assert all(map(torch.equal, model.parameters(), before))


@pytest.mark.slow
def test_data_or_nothing_may_be_the_limit() -> None:
    """All of few samples; not one where there is no memory at all."""
    assert largest_batch(fresh(), rows(6), squared, memory_bytes=2**40) == 6
    with pytest.raises(OutOfMemory, match=r"batch of 1 .*1,000 bytes"):
        largest_batch(fresh(), rows(), squared, memory_bytes=1000)


def test_a_batch_that_does_not_fit_is_told() -> None:
    """Torch is really asked for a petabyte; with the batch and what to do."""

    def loss(model: Small, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": squared(model, batch)["loss"] + torch.empty(2**50).sum()}

    with pytest.raises(OutOfMemory, match=r"batch of 16 .*allocate"):
        fit(fresh(), rows(), loss, epochs=1, batch=16, lr=0.1)
