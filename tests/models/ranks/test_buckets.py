"""Gradients leave for the other ranks while the backward pass goes on: all of them, once, in one order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steersman.models.ranks import ddp
from steersman.models.ranks.block import gradient_block
from steersman.models.ranks.ddp import Buckets
from tests.models.mean_model import Small, fresh, rows, squared

WHOLE = {1: 4, 16 * 4: 4, 32 * 4: 3, 10**6: 1}  # bytes of a bucket -> buckets of the small network's four tensors


class Wire:
    """Remembers what is sent, and doubles it as if another rank had the same."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.arrived = 0

    def send(self, part: Tensor) -> Wire:
        self.sent += range(part.storage_offset(), part.storage_offset() + len(part))
        part.mul_(2)
        return self

    def wait(self) -> None:
        self.arrived += 1


@pytest.fixture
def model() -> Small:
    return fresh()


@pytest.mark.parametrize("size", WHOLE)
def test_every_gradient_is_exchanged_once_and_most_before_the_backward_pass_ends(
    size: int, model: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent is the whole gradient; the same again in the next step."""
    monkeypatch.setattr(ddp, "BUCKET_BYTES", size)
    alone = torch.autograd.grad(squared(model, rows())["loss"], list(model.parameters()))
    block, wire = gradient_block(model), Wire()
    exchange = Buckets(list(model.parameters()), block, wire.send)
    for step in (1, 2):
        block.zero_()
        exchange.begin()
        torch.autograd.backward(squared(model, rows())["loss"])
        assert len(wire.sent) == step * len(block), "before end() is called"
        exchange.end()
        assert wire.arrived == step * WHOLE[size]
        assert all(torch.equal(p.grad, 2 * g) for p, g in zip(model.parameters(), alone, strict=True))  # type: ignore[arg-type]
    assert sorted(wire.sent) == sorted(2 * [*range(len(block))])


def test_a_rank_without_samples_sends_in_the_order_of_the_others(model: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one where some of the gradients come in another order, or never."""
    monkeypatch.setattr(ddp, "BUCKET_BYTES", 1)
    block, orders = gradient_block(model), []
    model.layers[0].bias.requires_grad_(False)
    for act in ("nothing", "everything", "the first weights only"):
        wire = Wire()
        exchange = Buckets(list(model.parameters()), block, wire.send)
        if act == "everything":
            torch.autograd.backward(squared(model, rows())["loss"])
        elif act != "nothing":
            first = model.layers[0]
            assert isinstance(first, nn.Linear)
            torch.autograd.backward(first.weight.sum())
        exchange.end()
        exchange.close()
        orders.append(wire.sent)
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == len(block)


def test_a_model_that_was_trained_is_let_go(model: Small) -> None:
    """Its later gradients are its user's own."""
    block, wire = gradient_block(model), Wire()
    Buckets(list(model.parameters()), block, wire.send).close()
    torch.autograd.backward(squared(model, rows())["loss"])
    assert not wire.sent
