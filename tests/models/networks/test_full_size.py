"""The networks that others are measured by, at their full size, on the meta device: shapes, parameters, operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from steersman.benchmarks.flops import training_flops
from steersman.models import CosmoFlow, DeepLab, Model, ResNet50, Tiramisu
from steersman.system.errors import BadValue

FULL: list[tuple[Callable[[], Model], tuple[int, ...], tuple[int, ...], int]] = [
    (lambda: ResNet50(1, 27), (1, 120, 85), (27,), 23_557_083),  # DeepEx
    (ResNet50, (3, 224, 224), (1000,), 25_557_032),  # torchvision
    (DeepLab, (16, 768, 1152), (3, 768, 1152), 43_488_867),  # ours; no number was published
    (Tiramisu, (16, 768, 1152), (3, 768, 1152), 7_152_051),  # ours; no number was published
    (CosmoFlow, (4, 128, 128, 128), (4,), 8_907_556),  # MLPerf HPC
]


@pytest.mark.slow
@pytest.mark.parametrize(("made", "taken", "given", "parameters"), FULL)
def test_a_network_of_full_size_has_its_shapes_parameters_and_operations(
    made: Callable[[], Model], taken: tuple[int, ...], given: tuple[int, ...], parameters: int
) -> None:
    """Operations counted by shapes are exactly those that torch counts, forward and backward."""
    with torch.device("meta"):
        model, batch = made(), torch.empty(2, *taken)
    assert model.parameter_count == parameters
    with FlopCounterMode(display=False) as counter:
        found = model(batch)
        torch.autograd.backward(found.sum())
    assert tuple(found.shape) == (2, *given)
    assert training_flops(model, lambda: model(batch)) == counter.get_total_flops()


@pytest.mark.parametrize("kind", [DeepLab, Tiramisu])
def test_a_narrow_network_sees_every_channel_and_changes_near_pixels_most(kind: Callable[..., Model]) -> None:
    """What it says of a pixel depends on all channels there."""
    torch.manual_seed(0)
    model = kind(6, 3, width=0.25).eval()
    images = torch.randn(1, 6, 48, 64, requires_grad=True)
    logits = model(images)
    assert logits.shape == (1, 3, 48, 64)
    torch.autograd.backward(logits[0, :, 24, 32].sum())
    assert images.grad is not None
    reach = images.grad[0].abs()
    assert (reach[:, 20:29, 28:37].amax((1, 2)) > 0).all()
    assert reach[:, 20:29, 28:37].mean() > reach.mean()


def test_a_cosmoflow_of_any_size_keeps_its_targets_in_reach() -> None:
    model = CosmoFlow(32, channels=2, targets=3).eval()
    with torch.no_grad():
        found = model(1e6 * torch.rand(2, 2, 32, 32, 32))
    assert found.shape == (2, 3)
    assert found.abs().max() <= 1.2


def test_networks_that_cannot_be_built_are_refused() -> None:
    for wrong in (
        lambda: CosmoFlow(16),
        lambda: DeepLab(0),
        lambda: DeepLab(width=0.001),
        lambda: Tiramisu(width=0.125),
    ):
        with pytest.raises(BadValue):
            wrong()
