"""A committee learns classes, and its disagreement is that of its members, not their common doubt."""

import numpy as np
import pytest
import torch

from steersman.models import Committee, Model
from steersman.models.networks.committee import disagreement
from steersman.system.errors import BadValue, UnknownName


def stripes(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images (count, 1, 40, 30) with one bright stripe, in the first, second or third part."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    images = rng.random((count, 1, 40, 30), dtype=np.float32) * 0.5
    for image, label in zip(images, labels, strict=True):
        image[0, 13 * label + rng.integers(0, 10)] += 0.6
    return images, labels


@pytest.fixture(scope="module")
def fitted() -> Committee:
    return Committee.fit(*stripes(240), classes=3, epochs=6)


@pytest.mark.slow
def test_it_learns_and_members_differ(fitted: Committee) -> None:
    images, labels = stripes(90, seed=1)
    probabilities = fitted.probabilities(images)
    assert probabilities.shape == (90, 3, 3)
    assert np.allclose(probabilities.sum(2), 1, atol=1e-5)
    assert fitted.judgement(images, labels)["wrong"].mean() < 0.1
    assert np.abs(probabilities[:, 0] - probabilities[:, 1]).max() > 1e-3


def test_it_goes_on_from_another_and_is_kept(fitted: Committee, tmp_path: object) -> None:
    images, labels = stripes(60, seed=2)
    later = Committee.fit(images, labels, classes=3, epochs=1, init=fitted)
    assert later.card["warm_start"]
    assert later.history[-1]["loss"] < 0.5 * np.log(3)
    later.save(str(tmp_path))
    assert np.array_equal(Model.load(str(tmp_path)).probabilities(images), later.probabilities(images))  # type: ignore[operator]


def test_disagreement_is_that_of_members_about_each_other() -> None:
    """0 where all say the same, however doubtful; log M where each is sure of another class."""
    alike, apart = np.full((1, 3, 4), 0.25), np.eye(4)[None, :3]
    assert disagreement(alike) == pytest.approx(0, abs=1e-12)
    assert disagreement(apart) == pytest.approx(np.log(3))
    random = np.random.default_rng(0).dirichlet(np.ones(5), (200, 3))
    found = disagreement(random)
    assert ((found >= 0) & (found <= np.log(3))).all()
    assert np.allclose(disagreement(random[:, [2, 0, 1]]), found)


def test_a_member_may_be_atomai_s_resnet() -> None:
    with torch.device("meta"):
        assert Committee(1, 27, members=2, network="resnet50").parameter_count == 2 * 23_557_083
        assert Committee(1, 27, members=1).parameter_count == 135_747


def test_what_it_cannot_use_is_refused() -> None:
    images, labels = stripes(8)
    for wrong in ((images[:, 0], labels), (images, labels[:3]), (images * np.nan, labels), (images, labels + 1)):
        with pytest.raises(BadValue):
            Committee.fit(*wrong, classes=3, epochs=1)
    with pytest.raises(UnknownName):
        Committee(1, 3, network="large")
