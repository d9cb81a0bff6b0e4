"""Frames of biased segments count as equilibrium has it: Gaussian wells, in which everything is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from steersman.steering.errors import NoAnswerYet
from steersman.steering.reweighting import Reweighted, log_normalisations

SPRINGS = ((0.0, 0.0), (3.0, 1.0), (2.0, -1.5))  # of each version: V(z) = a (z - c)^2 / 2, above a well z^2 / 2
FRAMES = (1000, 3000, 2000)


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    """Drawn from each version's own equilibrium, which is Gaussian."""
    rng = np.random.default_rng(0)
    parts = [
        rng.normal(a * c / (1 + a), 1 / np.sqrt(1 + a), n) for (a, c), n in zip(SPRINGS, FRAMES, strict=True)
    ]  # fmt: skip
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def energies(z: np.ndarray) -> np.ndarray:
    return np.stack([a * (z - c) ** 2 / 2 for a, c in SPRINGS])


@pytest.fixture(scope="module")
def found(z: np.ndarray, energies: np.ndarray) -> Reweighted:
    """Each frame counts the inverse of the mixture's density over that of equilibrium."""
    counts = np.array(FRAMES)
    of_versions = np.exp(np.log(counts)[:, None] - energies - log_normalisations(energies, counts)[:, None])
    weight = 1 / of_versions.sum(axis=0)
    mixed = np.random.default_rng(1).permutation(len(z))
    return Reweighted(weight / weight.sum(), mixed, np.zeros(len(z), int))


def test_normalisations_are_the_averages_of_equilibrium(energies: np.ndarray) -> None:
    exact = [-0.5 * np.log(1 + a) - a * c * c / (2 * (1 + a)) for a, c in SPRINGS]
    np.testing.assert_allclose(log_normalisations(energies, np.array(FRAMES)), exact, atol=0.06)
    shifted = energies + np.array([[5.0], [0.0], [0.0]])
    np.testing.assert_allclose(log_normalisations(shifted, np.array(FRAMES)) - 5.0, [-5.0, *exact[1:]], atol=0.06)


def test_averages_populations_and_differences_are_those_of_equilibrium(found: Reweighted, z: np.ndarray) -> None:
    """The well is Gaussian: each truth lies in its interval, which is narrow."""
    right, left = 1 - norm.cdf(1.0), 0.5
    for said, truth in (
        (found.average(z), 0.0), (found.average(z**2), 1.0),
        (found.population(z > 1), right), (found.population(z < 0), left),
        (found.difference(z > 1, z < 0), np.log(left / right)),  # what is rarer lies higher
        (found.difference(z < 0, z > 1), np.log(right / left)),
    ):  # fmt: skip
        assert said.low < truth < said.high
        assert said.low < said.value < said.high
        assert said.high - said.low < 0.3


def test_a_state_that_no_frame_is_in_is_infinitely_high(found: Reweighted, z: np.ndarray) -> None:
    nowhere = np.zeros(len(z), bool)
    assert found.difference(nowhere, z < 0).value == np.inf
    assert found.difference(z < 0, nowhere).value == -np.inf
    assert (found.population(nowhere).value, found.population(~nowhere).value) == (0.0, 1.0)


def test_a_free_energy_is_above_its_lowest_bin(found: Reweighted, z: np.ndarray) -> None:
    edges = np.linspace(-2, 2, 9)
    value, low, high = found.free_energy(z[:, None], [edges]).T
    exact = -np.log(np.diff(norm.cdf(edges)))
    assert value.min() == 0.0
    np.testing.assert_allclose(value, exact - exact.min(), atol=0.15)
    assert ((low <= value) & (value <= high)).all()
    assert np.isnan(found.free_energy(z[:, None], [np.array([-2.0, 2.0, 90.0, 91.0])])[2]).all(), "no frame is there"


def test_a_passage_is_made_by_one_lineage() -> None:
    """From one state to the other, over frames that are in neither: what another lineage did does not count."""
    place = np.array([1, 0, 2, 0, 1, 0, 0, 2, 2, 1, 2])
    lineage = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    order = np.random.default_rng(0).permutation(len(place))
    stored = np.empty_like(place)
    stored[order] = place
    found = Reweighted(np.full(len(place), 1 / len(place)), order, lineage)
    assert found.passages(stored == 1, stored == 2) == (2, 2)
    assert found.passages(stored == 2, stored == 1) == (2, 2)
    first = Reweighted(found.weight, order[:3], lineage[:3])
    assert (first.passages(stored == 1, stored == 2), first.passages(stored == 2, stored == 1)) == ((1, 0), (0, 1))


def test_an_effective_size_is_that_of_equal_weights_and_a_collapse_is_seen() -> None:
    order, lineage = np.arange(100), np.zeros(100, int)
    even, one = np.full(100, 0.01), np.eye(100)[0]
    assert Reweighted(even, order, lineage).effective == pytest.approx(100)
    assert Reweighted(one, order, lineage).effective == pytest.approx(1)
    assert not Reweighted(even, order, lineage).collapsed
    assert Reweighted(one, order, lineage).collapsed
    assert Reweighted(even, order, lineage, newest=-11.0).collapsed
    with pytest.raises(NoAnswerYet):
        Reweighted(even[:9] / 0.09, order[:9], lineage[:9]).average(np.ones(9))
