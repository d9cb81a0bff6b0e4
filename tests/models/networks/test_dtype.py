"""A user's function may set torch's default type: our networks stay in single precision."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from steersman.models import CVAE, PCA, SphericalFourier, SphericalUNet
from steersman.models.networks.resnet import ResNet50

rng = np.random.default_rng(0)
MAPS = rng.random((40, 8, 8)) < 0.5
FLOWS = rng.normal(size=(3, 4, 1, 16, 32)).astype(np.float32)


def encoded() -> np.ndarray:
    return np.hstack([CVAE.fit(MAPS, latent=2, epochs=1).encode(MAPS)[0], PCA.fit(MAPS, latent=2).encode(MAPS)[0]])


def stepped() -> np.ndarray:
    unet = SphericalUNet.fit(FLOWS, epochs=1, width=8)
    fourier = SphericalFourier.fit(FLOWS, epochs=1, width=8, layers=1, truncation=7)
    with torch.no_grad():
        return np.hstack([model(torch.from_numpy(FLOWS[:, 0])).numpy() for model in (unet, fourier)])


def classified() -> np.ndarray:
    found: np.ndarray = (
        ResNet50(channels=1, classes=3).eval()(torch.zeros(1, 1, 32, 32, dtype=torch.float32)).detach().numpy()
    )
    return found


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("results", [encoded, stepped, classified])
@pytest.mark.usefixtures("double")
def test_under_a_default_of_double_precision_results_are_single(results: Callable[[], np.ndarray]) -> None:
    under_double = results()
    torch.set_default_dtype(torch.float32)
    assert under_double.dtype == results().dtype == np.float32
    assert under_double.shape == results().shape
    assert np.isfinite(under_double).all()
