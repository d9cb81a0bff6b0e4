"""Classes of pixels: weights, counts, and a committee that learns them."""

from __future__ import annotations

import numpy as np
import pytest

from steersman.models import Committee
from steersman.models.networks.pixels import class_weights, confusion, iou, judgement
from steersman.system.errors import BadValue


def squares(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images (count, 1, 32, 32), a bright and a dark square in each: classes 1 and 2 of their pixels."""
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.3, (count, 1, 32, 32)).astype(np.float32)
    labels = np.zeros((count, 32, 32), np.uint8)
    for image, label in zip(images, labels, strict=True):
        for number, sign in ((1, 1), (2, -1)):
            row, column = rng.integers(0, 24, 2)
            image[0, row : row + 8, column : column + 8] = sign + rng.normal(0, 0.3, (8, 8))
            label[row : row + 8, column : column + 8] = number
    return images, labels


def test_weights_keep_the_mean_over_pixels_and_give_each_class_its_share() -> None:
    labels = np.random.default_rng(0).choice(3, (4, 16, 16), p=[0.9, 0.08, 0.02])
    shares = np.bincount(labels.ravel()) / labels.size
    for power in (0.0, 0.5, 1.0):
        assert shares @ class_weights(labels, 3, power) == pytest.approx(1)
    assert class_weights(labels, 3, 0.0) == pytest.approx([1, 1, 1])
    assert shares * class_weights(labels, 3, 1.0) == pytest.approx([1 / 3] * 3)
    assert shares**0.5 * class_weights(labels, 3, 0.5) == pytest.approx([1 / (shares**0.5).sum()] * 3)
    assert np.isfinite(class_weights(np.zeros((1, 4, 4), int), 3, 1.0)).all()


def test_intersection_over_union_is_pooled() -> None:
    """All background is right where there is nothing, and says nothing of the classes that were missed elsewhere."""
    labels = np.zeros((10, 8, 8), int)
    labels[0, :2] = 1
    nothing = confusion(labels, np.zeros_like(labels), 3)
    assert (nothing.sum((1, 2)) == 64).all()
    found = iou(nothing.sum(0))
    assert found[0] == pytest.approx(624 / 640)
    assert found[1] == 0
    assert np.isnan(found[2])
    half = np.zeros_like(labels)
    half[0, 1:3] = 1
    assert iou(confusion(labels, half, 3).sum(0))[1] == pytest.approx(1 / 3)
    assert iou(confusion(labels, labels, 2).sum(0)) == pytest.approx([1, 1])


@pytest.mark.slow
def test_a_committee_learns_the_class_of_every_pixel() -> None:
    images, labels = squares(48)
    weights = class_weights(labels, 3, 0.5)
    model = Committee.fit(
        images, labels, classes=3, members=2, network="tiramisu", width=5 / 32, weights=weights, epochs=10, batch=8,
        lr=3e-3,
    )  # fmt: skip
    assert model.card["weights"] == weights
    new_images, new_labels = squares(24, seed=1)
    probabilities = model.probabilities(new_images)
    assert probabilities.shape == (24, 2, 3, 32, 32)
    assert np.allclose(probabilities.sum(2), 1, atol=1e-5)
    found = judgement(model, new_images, new_labels, weights)
    assert found["disagreement"].shape == found["error"].shape == (24,)
    assert (found["disagreement"] >= 0).all()
    assert found["error"].mean() < np.log(3)
    assert iou(found["confusion"].sum(0).reshape(3, 3))[1:].min() > 0.5


def test_labels_of_pixels_must_fit_their_images() -> None:
    images, labels = squares(2)
    with pytest.raises(BadValue):
        Committee.fit(images, labels[:, :16], classes=3, network="deeplab", width=1 / 16, epochs=1)


@pytest.mark.parametrize(("network", "edge"), [("tiramisu", 24), ("deeplab", 20)])
def test_edges_that_a_network_cannot_halve_are_refused(network: str, edge: int) -> None:
    images, labels = squares(2)
    with pytest.raises(BadValue):
        Committee.fit(images[..., :edge], labels[..., :edge], classes=3, network=network, width=5 / 32, epochs=1)


@pytest.mark.parametrize("kind", [bool, np.float32, np.uint8])
def test_labels_may_be_of_any_kind_of_number(kind: type) -> None:
    """And how the training weighed the classes changes nothing: a gate compares models of several trainings."""
    images, labels = squares(2)
    labels, model = labels > 0, Committee(1, 2, members=2, network="tiramisu", width=5 / 32).eval()
    judged = []
    for each, own in ((np.int64, [1.0, 1.0]), (kind, class_weights(labels.astype(kind), 2, 0.5))):
        model.card["weights"] = own
        judged.append(judgement(model, images, labels.astype(each), (0.5, 9)))
    assert all((judged[0][name] == judged[1][name]).all() for name in judged[0])
    of_images = Committee(1, 2, members=2).eval()
    whole, other = (of_images.judgement(images, labels[:, 0, 0].astype(each)) for each in (np.int64, kind))
    assert all((whole[name] == other[name]).all() for name in whole)
