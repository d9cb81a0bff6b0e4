"""ResNet-50: as large as the papers say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from steersman.models import ResNet50
from steersman.models.fitting.fit import fit, seeded


@pytest.mark.parametrize(("channels", "classes", "parameters"), [(1, 27, 23_557_083), (3, 1000, 25_557_032)])
def test_the_parameters_are_counted_in_the_papers(channels: int, classes: int, parameters: int) -> None:
    """AtomAI as DeepEx has it, and ImageNet as He et al. have it."""
    with torch.device("meta"):
        assert ResNet50(channels, classes).parameter_count == parameters


def test_images_of_both_sizes_become_one_score_per_class() -> None:
    """120x85 of AtomAI is not a multiple of 32."""
    with torch.device("meta"):
        assert ResNet50(1, 27)(torch.empty(2, 1, 120, 85)).shape == (2, 27)
        assert ResNet50()(torch.empty(2, 3, 224, 224)).shape == (2, 1000)


@pytest.mark.slow
def test_it_learns_two_kinds_of_stripes() -> None:
    """Lying or standing, with noise: six steps on eight small images, the running means move."""
    stripes = (torch.arange(64) % 8 < 4).float().expand(64, 64)
    with seeded(0):
        model, noise = ResNet50(1, 2), 0.5 * torch.randn(8, 1, 64, 64)
    images = torch.stack([stripes, stripes.T] * 4).unsqueeze(1) + noise

    def loss(model: ResNet50, images_B1HW: Tensor) -> dict[str, Tensor]:
        rows = images_B1HW[:, 0].mean(dim=2).std(dim=1)  # of standing stripes all rows are the same
        return {"loss": functional.cross_entropy(model(images_B1HW), (rows > 0.3).long())}

    history = fit(model, images, loss, epochs=6, batch=8, lr=1e-3).history
    assert history[-1]["loss"] < history[0]["loss"] / 2
    assert float(model.state_dict()["layers.1.running_mean"].abs().max()) > 0
