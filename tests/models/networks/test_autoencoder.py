"""An autoencoder of vectors: it rebuilds what it was fitted to, and says where it does not."""

import numpy as np
import pytest

from steersman.models import PCA, Autoencoder
from steersman.system.errors import BadValue


def circle(n: int, seed: int) -> np.ndarray:
    """(n, 6) float64: points of a circle, mixed into six numbers with a little noise."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, np.pi, n)
    mixing = np.random.default_rng(0).normal(size=(2, 6))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) @ mixing + 0.01 * rng.normal(size=(n, 6))


def test_it_rebuilds_what_is_alike_and_says_what_is_not() -> None:
    data = circle(2000, seed=1)
    model = Autoencoder.fit(data, latent=1, epochs=100)
    z, error = model.encode(circle(500, seed=2))
    assert z.shape == (500, 1)
    straight = PCA.fit(data, latent=1).encode(circle(500, seed=2))[1]
    assert error.mean() < 0.6 * straight.mean()
    other = model.encode(-circle(500, seed=2))[1]  # the other half of the circle, never seen
    assert np.median(other) > 10 * np.median(error)


def test_a_fit_repeats_and_goes_on() -> None:
    data = circle(500, seed=1)
    one, other = (Autoencoder.fit(data, epochs=2, seed=3) for _ in range(2))
    assert (one.encode(data)[0] == other.encode(data)[0]).all()
    assert Autoencoder.fit(data, epochs=1, init=one).card["warm_start"]


@pytest.mark.parametrize(("wide", "moved"), [(400.0, 0.0), (1.0, 50.0), (1 / 400, 0.0)])
def test_what_was_fitted_to_other_inputs_is_no_beginning(wide: float, moved: float) -> None:
    """As of a run whose first frames lay in one state: the units that know these are far out in all others."""
    data = circle(500, seed=1)
    first = Autoencoder.fit(data, latent=1, epochs=30)
    later = wide * data + moved
    warm, cold = (Autoencoder.fit(later, latent=1, epochs=100, init=init) for init in (first, None))
    assert not warm.card["warm_start"]
    assert warm.encode(later)[1].mean() == cold.encode(later)[1].mean()


@pytest.mark.parametrize("data", [np.ones((5, 3)), np.ones((0, 3)), np.full((5, 3), np.nan)])
def test_data_that_teach_nothing_are_refused(data: np.ndarray) -> None:
    with pytest.raises(BadValue):
        Autoencoder.fit(data)
