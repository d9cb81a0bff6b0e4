"""Principal components: the laws that any implementation keeps, and scikit-learn's as an oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA as Oracle

from steersman.models import PCA
from steersman.system.errors import BadValue


@pytest.fixture
def data() -> np.ndarray:
    """300 rows of (4, 2) numbers with very different variances."""
    rng = np.random.default_rng(1)
    rows: np.ndarray = rng.normal(size=(300, 8)) * np.array([9, 7, 5, 4, 3, 2, 1, 0.5]) @ rng.normal(size=(8, 8))
    return rows.reshape(300, 4, 2)


def test_it_agrees_with_scikit_learn(data: np.ndarray) -> None:
    z, _ = PCA.fit(data, latent=3).encode(data)
    other = Oracle(3).fit_transform(data.reshape(300, -1))
    np.testing.assert_allclose(np.abs(z), np.abs(other), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("offset", "dtype"), [(1e4, np.float32), (5.4e6, np.float64), (-1e9, np.float64)])
def test_where_the_data_lie_does_not_matter(offset: float, dtype: type) -> None:
    """Heights of 10,000 m, northings, energies: as many digits of what varies are left as were given."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50_000, 4)) * [2, 1.5, 1, 0.5]
    moved: np.ndarray = (rows + offset * np.array([0, 0, 1, 1])).astype(dtype)
    at_home, error = PCA.fit(rows, latent=2).encode(rows)
    z, error_moved = PCA.fit(moved, latent=2).encode(moved)
    np.testing.assert_allclose(z, at_home, atol=5e-3)
    assert error_moved.mean() == pytest.approx(error.mean(), rel=1e-3)


def test_latent_directions_are_uncorrelated_and_in_order_of_variance(data: np.ndarray) -> None:
    covariance = np.cov(PCA.fit(data, latent=4).encode(data)[0].T)
    variances = np.diag(covariance)
    assert (np.diff(variances) < 0).all()
    assert np.abs(covariance - np.diag(variances)).max() < 1e-3 * variances[0]


def test_all_directions_leave_no_error_and_fewer_leave_the_variance_left_out(data: np.ndarray) -> None:
    assert PCA.fit(data, latent=8).encode(data)[1].max() < 1e-4
    model = PCA.fit(data, latent=2)
    z, error = model.encode(data)
    total = data.reshape(300, -1).var(axis=0).sum()
    assert error.mean() * 8 == pytest.approx(total - z.var(axis=0).sum(), rel=1e-3)


def test_the_same_data_give_the_same_signs(data: np.ndarray) -> None:
    z = PCA.fit(data, latent=3).encode(data)[0]
    shuffled = np.random.default_rng(2).permutation(data)
    np.testing.assert_allclose(PCA.fit(shuffled, latent=3).encode(data)[0], z, rtol=1e-2, atol=1e-2)


def test_more_directions_than_numbers_are_those_there_are() -> None:
    assert PCA.fit(np.eye(3), latent=9).encode(np.eye(3))[0].shape == (3, 3)


def test_more_directions_than_rows_are_as_many_as_rows() -> None:
    assert PCA.fit(np.eye(3)[:2], latent=3).encode(np.eye(3))[0].shape == (3, 2)


def test_it_comes_back_from_a_file(data: np.ndarray, tmp_path: Path) -> None:
    model = PCA.fit(data, latent=2)
    model.save(tmp_path)
    np.testing.assert_array_equal(PCA.load(tmp_path).encode(data)[0], model.encode(data)[0])


@pytest.mark.parametrize(
    "bad", [np.ones((0, 3)), np.ones((1, 3)), np.array([[1.0, np.nan], [0.0, 1.0]])], ids=["none", "one row", "NaN"]
)
def test_data_that_cannot_be_used_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(BadValue, match="principal components need"):
        PCA.fit(bad)


def test_rows_of_another_size_are_refused(data: np.ndarray) -> None:
    with pytest.raises(BadValue, match="rows of 8"):
        PCA.fit(data).encode(data[:, :3])
