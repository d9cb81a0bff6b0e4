"""Weights of biased frames: they undo the bias exactly, and intervals hold the truth as often as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.steering import Opes, Scores
from steersman.steering.errors import NoAnswerYet
from steersman.steering.opes import ENERGY
from steersman.steering.reweighting import Reweighted, log_normalisations, settled, weights

GRID = np.linspace(-2.2, 2.2, 2201)
U = 12 * (GRID**2 - 1) ** 2 + GRID  # a double well whose right well lies higher


def drawn(energy: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) of GRID's nodes, independent, by exp(-energy)."""
    chance = np.exp(energy.min() - energy)
    return rng.choice(len(GRID), count, p=chance / chance.sum())


def filled(seed: int, versions: int = 8, frames: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Biases, each made of what was drawn under those before: their energies (k, nodes); nodes and versions (n,)."""
    rng, opes = np.random.default_rng(seed), Opes("z", barrier_kT=14)
    energies, nodes, version = [np.zeros(len(GRID))], np.empty(0, int), np.empty(0, int)
    for k in range(versions):
        nodes = np.append(nodes, drawn(U + energies[k], frames, rng))
        version = np.append(version, np.full(frames, k))
        felt, row = np.array(energies)[version, nodes], np.arange(len(nodes))
        values = {"z": GRID[nodes], ENERGY: felt}
        energies.append(opes.made(Scores(row * 0, row, row // 20, row, row, values, 1)).energy(GRID))
    return np.array(energies[:-1]), nodes, version


def weighed(energies: np.ndarray, nodes: np.ndarray, version: np.ndarray) -> Reweighted:
    """One lineage."""
    weight = weights(version, lambda k, some: energies[k, nodes[some]])
    return Reweighted(weight, np.arange(len(nodes)), np.zeros(len(nodes), int))


def test_normalisations_are_the_integrals_over_the_unbiased_distribution() -> None:
    energies, nodes, version = filled(seed=2)
    energies[1:] += np.linspace(-6, 6, len(energies) - 1)[:, None]
    found = log_normalisations(energies[:, nodes], np.bincount(version))
    truth = np.log(np.exp(-U - energies).sum(axis=1))
    np.testing.assert_allclose(found, truth - truth[0], atol=0.04)


def test_a_constant_in_a_version_changes_nothing() -> None:
    energies, nodes, version = filled(seed=1)
    shifted = energies + np.random.default_rng(0).uniform(-300, 300, (len(energies), 1))
    np.testing.assert_allclose(
        weighed(shifted, nodes, version).weight, weighed(energies, nodes, version).weight, rtol=1e-5
    )


def test_without_a_bias_all_weights_are_equal() -> None:
    nodes = drawn(U, 300, np.random.default_rng(0))
    found = weighed(np.zeros((3, len(GRID))), nodes, np.arange(300) % 3)
    np.testing.assert_allclose(found.weight, 1 / 300)
    assert found.effective == pytest.approx(300)


def test_a_version_that_was_left_before_its_equilibrium_does_no_harm() -> None:
    """The first versions find the walkers in one well, whose frames are rare under them: each would weigh exp(9)."""
    energies, nodes, version = filled(seed=2, versions=16)
    first = version < 2
    nodes[first] = np.where(GRID[nodes[first]] > 0, len(GRID) - 1 - nodes[first], nodes[first])
    energies[1] -= 14 * (np.abs(GRID + 1) > 0.5)  # it pushes out of that well at once
    z, found = GRID[nodes], weighed(energies, nodes, version)
    truth = np.log(np.exp(-U)[GRID < 0].sum() / np.exp(-U)[GRID > 0].sum())
    assert found.difference(z > 0, z < 0).value == pytest.approx(truth, abs=0.6)
    logs = log_normalisations(energies[:, nodes], np.bincount(version))
    alone = np.exp(energies[version, nodes] + logs[version])
    assert np.log(alone[z < 0].sum() / alone[z > 0].sum()) > truth + 8, "what a version says of itself"


def test_intervals_of_free_energies_populations_and_averages_hold_the_truth() -> None:
    chance = np.exp(-U) / np.exp(-U).sum()
    right = float(chance[GRID > 0].sum())
    truth = [np.log((1 - right) / right), right, float((chance * GRID).sum()), float((chance * GRID**2).sum())]
    held = np.zeros(4)
    for seed in range(12):
        energies, nodes, version = filled(seed)
        z, found = GRID[nodes], weighed(energies, nodes, version)
        results = (
            found.difference(z > 0, z < 0), found.population(z > 0), found.average(z), found.average(z**2)
        )  # fmt: skip
        held += [mean.low < value < mean.high for mean, value in zip(results, truth, strict=True)]
    assert (held >= 10).all(), held


def test_free_energies_of_bins_are_those_of_the_potential() -> None:
    energies, nodes, version = filled(seed=3, frames=2000)
    z, edges = GRID[nodes], np.linspace(-1.3, 1.3, 27)
    found = weighed(energies, nodes, version)
    value, low, high = found.free_energy(z[:, None], [edges]).T
    share = np.histogram(GRID, edges, weights=np.exp(-U))[0]
    truth = -np.log(share / share.max())
    seen = np.isfinite(value)
    assert seen.sum() > 15
    assert ((low <= truth) & (truth <= high))[truth < 6].mean() > 0.9
    assert np.abs(value - truth)[truth < 6].max() < 0.3
    both = found.free_energy(np.stack([z, z], axis=1), [edges, edges])
    np.testing.assert_allclose(both[np.arange(26), np.arange(26)], np.stack([value, low, high], axis=1))
    assert np.isnan(both[0, 5]).all(), "no frame is there"


def test_what_flickers_over_an_edge_has_been_there_once() -> None:
    """A thousand frames are a hundred pieces: two visits, whose edges are crossed back and forth within a piece."""
    there = np.zeros(1000, bool)
    there[[301, 303, 305, 306, 308, 700]] = True
    found = Reweighted(np.full(1000, 1e-3), np.arange(1000), np.zeros(1000, int))
    assert found.passages(~there, there) == (5, 5)
    assert found.passages_apart(~there, there) == (2, 2)
    quick = np.arange(1000) % 2 == 0  # back and forth in each piece
    assert found.passages_apart(quick, ~quick) == (100, 100)


def test_what_knows_where_it_began_is_left_out_of_every_lineage() -> None:
    found = settled(np.array([7] * 10 + [3] * 5 + [4]))
    assert found.tolist() == [False] * 2 + [True] * 8 + [False] + [True] * 4 + [True]


def test_lineages_are_counted_apart_and_what_was_not_seen_is_not_known() -> None:
    z = np.tile([-1.0, 0, 1, 1, 0, -1], 10)
    found = Reweighted(np.full(60, 1 / 60), np.arange(60), np.arange(60) // 28)
    assert found.passages(z < 0, z > 0) == (9, 9), "one each lies between two lineages"
    assert found.passages(z < 0, z < 1) == found.passages(z < 0, z == 0) == (10, 10), "the inner one, and the rest"
    assert found.passages(z < 1, z < 0) == (10, 10)
    assert found.passages(z < 1, z > -1) == found.passages(z < 0, z > 0), "what is in both is in neither"
    assert found.enough_passages == 6
    assert replace(found, lineage=np.arange(60) // 5).enough_passages == 24
    unseen = found.difference(z > 2, z < 0)
    assert (unseen.value, np.isnan(unseen.low)) == (np.inf, True)
    assert found.population(z > 2) == (0.0, 0.0, 1.0)
    assert found.average(np.zeros(60)) == (0.0, 0.0, np.inf)
    assert found.difference(z < 0, z > 2).value == -np.inf
    with pytest.raises(NoAnswerYet):
        Reweighted(np.full(9, 1 / 9), np.arange(9), np.zeros(9, int)).average(z[:9])


@pytest.mark.parametrize(("newest", "heavy", "collapsed"), [(-3.0, 0.0, False), (-12.0, 0.0, True), (-3.0, 50.0, True)])
def test_collapsed_weights_are_seen(newest: float, heavy: float, collapsed: bool) -> None:
    weight = np.exp(np.where(np.arange(100) < 3, heavy, 0.0))
    assert Reweighted(weight / weight.sum(), np.arange(100), np.zeros(100, int), newest).collapsed is collapsed
