"""Batch and rate of every moment."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from steersman.models.fitting.fit import fit
from steersman.models.fitting.schedule import Schedule
from tests.models.mean_model import fresh, rows, squared


def test_the_rate_rises_linearly_from_the_single_to_the_scaled_rate() -> None:
    """Goyal et al.: from lr to k lr within the warm-up, then constant; without one it is k lr at once."""
    schedule = Schedule(lr_scale=8, warmup_epochs=5)
    factors = [schedule.factor_at(step / 100, 32) for step in range(501)]
    assert factors[0] == 1
    assert factors[250] == pytest.approx(4.5)
    assert factors[500] == schedule.factor_at(50, 32) == Schedule(lr_scale=8).factor_at(0, 32) == 8
    assert max(b - a for a, b in itertools.pairwise(factors)) == pytest.approx(7 / 500)


def test_the_rate_falls_along_half_a_cosine_to_nothing() -> None:
    schedule = Schedule(lr_scale=4, warmup_epochs=1, decay_epochs=9)
    assert [schedule.factor_at(epoch, 32) for epoch in (0, 3, 4.5, 6, 9, 12)] == pytest.approx([1, 3, 2, 1, 0, 0])


@given(st.integers(1, 100), st.integers(1, 9), st.integers(0, 5000), st.floats(0, 100))
def test_a_batch_grows_with_its_rate_and_within_its_limit(batch: int, every: int, limit: int, epoch: float) -> None:
    """Lee et al.: rate over batch stays; a limit below the first batch leaves it as it is."""
    schedule = Schedule(double_every=every, largest_batch=limit)
    now = schedule.batch_at(epoch, batch)
    assert schedule.factor_at(epoch, batch) == now / batch
    assert not limit or now <= max(limit, batch)
    assert now == batch * 2 ** int(epoch // every) or 2 * now > limit > 0


def test_training_with_a_growing_batch_is_a_loop_by_hand() -> None:
    """Batches of 12, then 24, at twice the rate; bit for bit."""
    ours, plain, data = fresh(), fresh(), rows()
    growing = Schedule(double_every=2, largest_batch=24)
    fit(ours, data, squared, epochs=6, batch=12, lr=0.01, seed=3, optimizer="sgd", schedule=growing)
    steps = torch.optim.SGD(plain.parameters(), 0.01, momentum=0.9, fused=True)
    order = torch.Generator().manual_seed(3)
    for growth in (1, 1, 2, 2, 2, 2):
        steps.param_groups[0]["lr"] = 0.01 * growth
        for picked in torch.split(torch.randperm(len(data), generator=order), 12 * growth):
            steps.zero_grad()
            torch.autograd.backward(squared(plain, data[picked])["loss"])
            nn.utils.clip_grad_norm_(plain.parameters(), 5.0)
            steps.step()
    assert all(map(torch.equal, ours.parameters(), plain.parameters()))
