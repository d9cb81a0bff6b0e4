"""A committee of image regressors learns another image of each image, whichever way both are mirrored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from steersman.models import ImageRegressors
from steersman.system.errors import BadValue


def spots(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 1, 64, 80) of a spot, and where it lies on 16 x 16 pixels: a hill twice as bright and as wide."""
    y, x = np.random.default_rng(seed).uniform(-0.6, 0.6, (2, count, 1, 1))

    def hills(rows: int, columns: int, width: float) -> np.ndarray:
        down, across = np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, columns)
        return np.asarray(np.exp(-((down - y) ** 2 + (across - x) ** 2) / width**2))

    return hills(64, 80, 0.2)[:, None], 2 * hills(16, 16, 0.4)


@pytest.fixture(scope="module")
def fitted() -> ImageRegressors:
    return ImageRegressors.fit(*spots(128), members=2, width=8, epochs=12, lr=3e-3)


@pytest.mark.slow
def test_it_learns_and_members_differ(fitted: ImageRegressors) -> None:
    images, targets = spots(40, seed=1)
    found = fitted.estimates(images)
    assert found.shape == (40, 2, 16, 16)
    null = np.abs(targets - spots(128)[1].mean(0)).mean()
    assert np.abs(found.mean(1) - targets).mean() < 0.5 * null
    assert found.std(1).mean((1, 2)).min() > 0
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"]


def test_it_goes_on_from_another_and_is_kept(fitted: ImageRegressors, tmp_path: Path) -> None:
    images, targets = spots(16, seed=2)
    later = ImageRegressors.fit(images, targets, members=2, width=8, epochs=1, init=fitted)
    assert later.card["warm_start"]
    assert later.history[0]["loss"] < fitted.history[0]["loss"]
    later.save(tmp_path)
    assert np.array_equal(ImageRegressors.load(tmp_path).estimates(images), later.estimates(images))
    wider = ImageRegressors.fit(images, targets, members=2, width=10, epochs=1, init=fitted)
    assert not wider.card["warm_start"]


def test_image_and_target_are_mirrored_alike() -> None:
    """A network that keeps places errs by nothing, whichever way a batch is mirrored."""
    model = ImageRegressors(8, 1, members=1, width=1).train()
    model.members[0] = torch.nn.Flatten(1, 2)
    images = torch.arange(128.0).reshape(2, 1, 8, 8)
    assert all(model.loss(images, images.flatten(1))["loss"] == 0 for _ in range(20))


def test_what_does_not_fit_is_refused() -> None:
    images, targets = spots(4)
    with pytest.raises(BadValue):
        ImageRegressors.fit(images[:, 0], targets)
    with pytest.raises(BadValue):
        ImageRegressors.fit(images, targets[:, :, :-1])
    with pytest.raises(BadValue):
        ImageRegressors.fit(images, targets[:, :12, :12])
    with pytest.raises(BadValue):
        ImageRegressors.fit(images[:1], targets[:1])
    with pytest.raises(BadValue):
        ImageRegressors(16, 1, members=0)
