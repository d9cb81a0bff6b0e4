"""Operations counted from shapes are those that torch counts while it computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from steersman.benchmarks.flops import training_flops
from steersman.models import CVAE, Model, ResNet50
from steersman.models.networks.cvae import elbo


def test_the_count_is_that_of_torch_s_counter() -> None:
    """Exactly, forward and backward: convolutions, transposed ones, dense layers."""
    with torch.device("meta"):
        vae, resnet = CVAE(28), ResNet50(1, 27)
        maps, images = torch.empty(4, 28, 28), torch.empty(2, 1, 120, 85)
    steps: dict[Model, Callable[[], Tensor]] = {
        vae: lambda: elbo(vae, maps)["loss"],
        resnet: lambda: resnet(images).sum(),
    }
    for model, step in steps.items():
        with FlopCounterMode(display=False) as counter:
            torch.autograd.backward(step())
        assert training_flops(model, step) == counter.get_total_flops()


def test_an_analytic_count_of_one_dense_layer() -> None:
    """B x K x D multiplications and as many additions; without a gradient of the input twice that in all."""
    layer = torch.nn.Linear(5, 7)
    assert training_flops(layer, lambda: layer(torch.ones(3, 5))) == 2 * (2 * 3 * 5 * 7)
    wanted = torch.ones(3, 5, requires_grad=True)
    assert training_flops(layer, lambda: layer(wanted)) == 3 * (2 * 3 * 5 * 7)


@pytest.mark.parametrize("size", [10, 28])
def test_flops_grow_with_the_batch(size: int) -> None:
    with torch.device("meta"):
        model = CVAE(size)
        one, eight = (torch.empty(count, size, size) for count in (1, 8))
    assert training_flops(model, lambda: elbo(model, eight)) == 8 * training_flops(model, lambda: elbo(model, one))
