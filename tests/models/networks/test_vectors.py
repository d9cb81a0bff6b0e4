"""A committee of small networks learns numbers of plain vectors, whatever their size and offset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from steersman.models import Model, Vectors, portable
from steersman.system.errors import BadValue


def curved(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (count, 3), one number of which says nothing, and total energies (count, 1) as a DFT code gives them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, 3))
    vectors = np.stack([1e4 * x[:, 0], 3 + 1e-3 * x[:, 1], np.full(count, 7.0)], 1)
    return vectors, (-1.2e5 + 0.3 * x[:, 0] + 0.1 * x[:, 1] ** 2)[:, None]


@pytest.fixture(scope="module")
def fitted() -> Vectors:
    return Vectors.fit(*curved(80), epochs=60, lr=1e-2)


def test_it_learns_a_thousandth_of_an_offset_of_10_5_and_members_differ(fitted: Vectors) -> None:
    vectors, targets = curved(200, seed=1)
    found = fitted.estimates(vectors)
    assert found.shape == (200, 3, 1)
    assert found.dtype == np.float64
    assert np.abs(found.mean(1) - targets).mean() < 0.015  # who says the mean errs by 0.15
    assert found.std(1).min() > 0


def test_it_says_in_the_units_of_its_targets_what_it_says_elsewhere(fitted: Vectors, tmp_path: Path) -> None:
    """An exported model is its forward."""
    vectors, _ = curved(20, seed=2)
    portable.write(fitted, tmp_path / "model.pt2", (3,), double=True)
    said = torch.export.load(tmp_path / "model.pt2").module()(torch.from_numpy(vectors))
    np.testing.assert_allclose(said.detach().numpy().transpose(1, 0, 2), fitted.estimates(vectors), rtol=1e-9)


def test_it_goes_on_from_another_with_its_scales_and_is_kept(fitted: Vectors, tmp_path: Path) -> None:
    vectors, targets = curved(80)
    later = Vectors.fit(vectors + 5.0, targets, epochs=1, lr=0.0, init=fitted)
    assert later.card["warm_start"]
    assert np.array_equal(later.estimates(vectors), fitted.estimates(vectors))
    later.save(tmp_path)
    assert np.array_equal(Vectors.load(tmp_path).estimates(vectors), later.estimates(vectors))
    assert isinstance(Model.load(tmp_path), Vectors)
    assert not Vectors.fit(vectors, targets, epochs=1, width=4, init=fitted).card["warm_start"]


def test_what_cannot_be_learned_is_refused() -> None:
    vectors, targets = curved(8)
    with pytest.raises(BadValue):
        Vectors.fit(vectors, targets[:, 0])
    with pytest.raises(BadValue):
        Vectors.fit(vectors, targets[:4])
    with pytest.raises(BadValue):
        Vectors.fit(vectors[:0], targets[:0])
    with pytest.raises(BadValue):
        Vectors.fit(np.where(vectors == vectors[0], np.nan, vectors), targets)
    with pytest.raises(BadValue):
        Vectors(3, members=0)


def test_planes_go_on_straight_beyond_what_they_have_learned() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 2))
    plane = Vectors.fit(vectors, vectors @ np.array([[2.0], [-1.0]]), width=0, epochs=100, lr=1e-2)
    assert plane.parameter_count == 3 * 3
    assert np.allclose(plane.estimates(np.array([[20.0, 20.0]])).mean(1), 20.0, atol=0.5)
    with pytest.raises(BadValue):
        Vectors(3, width=-1)
