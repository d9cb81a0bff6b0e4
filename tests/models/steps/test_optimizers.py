"""Optimizers and rates: what their papers promise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from steersman.models.errors import TrainingDiverged
from steersman.models.fitting.fit import fit, seeded
from steersman.models.steps.optimizers import LARS, OPTIMIZERS, optimizer, tensor_rate
from steersman.system.errors import UnknownName
from tests.models.mean_model import fresh, rows, squared

norms = st.floats(0, 1e6)


@given(weight=norms, gradient=norms, lr=st.floats(1e-6, 1e3), decay=st.floats(0, 1))
def test_larc_never_exceeds_the_global_rate(weight: float, gradient: float, lr: float, decay: float) -> None:
    """For any norms, zero included; in float32, so up to its rounding."""
    rate = tensor_rate(torch.tensor([weight]), torch.tensor([gradient]), lr, decay, trust=0.02, clip=True).item()
    assert 0 <= rate <= lr * (1 + 1e-6)


@pytest.mark.parametrize("clip", [False, True])
def test_zero_norms_are_safe(clip: bool) -> None:
    """A weight of zeros moves as in SGD; a gradient of zeros moves nothing."""
    zero, one = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(3))
    zero.grad, one.grad = torch.ones(3), torch.zeros(3)
    LARS([zero, one], lr=0.5, clip=clip).step()
    assert torch.equal(zero.data, torch.full((3,), -0.5))
    assert torch.equal(one.data, torch.ones(3))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_step_of_lars_has_its_length_whatever_the_gradient_s(scale: float) -> None:
    """The rate times the trust times the weights' norm, without decay and before momentum builds up."""
    with seeded(0):
        weight, slope = nn.Parameter(torch.randn(50)), torch.randn(50)
    before, weight.grad = weight.detach().clone(), slope * scale
    LARS([weight], lr=2.0, trust=0.01).step()
    assert (weight - before).norm().item() == pytest.approx(2.0 * 0.01 * before.norm().item(), rel=1e-4)


def loss_ratio(name: str, lr: float) -> float:
    """Last loss over the first of the small network at a batch of half the data; infinite where it diverged."""
    try:
        history = fit(fresh(), rows(256), squared, epochs=60, batch=128, lr=lr, optimizer=name).history
    except TrainingDiverged:
        return float("inf")
    return history[-1]["loss"] / history[0]["loss"]


def test_larc_trains_at_a_batch_and_rate_where_sgd_diverges() -> None:
    """At a rate of 3 SGD ends a hundred times above where it began, LARC at a tenth; at 0.5 SGD was still well."""
    assert loss_ratio("sgd", lr=0.5) < 0.5
    assert loss_ratio("sgd", lr=3.0) > 10
    assert loss_ratio("larc", lr=3.0) < 0.2


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_lowers_the_loss(name: str) -> None:
    lr = {"adam": 0.01, "sgd": 0.02, "lars": 10.0, "larc": 0.02}[name]
    history = fit(fresh(), rows(), squared, epochs=30, batch=16, lr=lr, optimizer=name).history
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


def test_sgd_is_a_plain_loop_bit_for_bit() -> None:
    """The same shuffled batches, clipped gradients and steps, written by hand."""
    ours, plain, data = fresh(), fresh(), rows()
    fit(ours, data, squared, epochs=2, batch=40, lr=0.05, seed=3, optimizer="sgd")
    steps = torch.optim.SGD(plain.parameters(), 0.05, momentum=0.9, fused=True)
    order = torch.Generator().manual_seed(3)
    for _ in range(2):
        for picked in torch.split(torch.randperm(len(data), generator=order), 40):
            steps.zero_grad()
            loss: Tensor = squared(plain, data[picked])["loss"]
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(plain.parameters(), 5.0)
            steps.step()
    assert all(map(torch.equal, ours.parameters(), plain.parameters()))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_first_step_that_overflows_and_is_left_out_leaves_no_momentum(name: str) -> None:
    """As the first ones of fp16 do; torch's fused SGD would take what lies in memory for it."""
    weight = nn.Parameter(torch.ones(64))
    step = optimizer(name, [weight], 0.1)
    weight.grad = torch.ones(64)
    step.grad_scale, step.found_inf = torch.ones(()), torch.ones(())  # type: ignore[attr-defined]
    if name in ("adam", "sgd"):  # the others' steps are left out by their caller
        step.step()
    moments = [each for state in step.state.values() for each in state.values() if isinstance(each, torch.Tensor)]
    assert all((moment == 0).all() for moment in moments)
    assert (weight == 1).all()


def test_an_unknown_optimizer_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"'adm'.*'adam'"):
        optimizer("adm", fresh().parameters(), 0.1)
