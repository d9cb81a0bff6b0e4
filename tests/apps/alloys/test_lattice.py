"""Clusters of an alloy's sites: what symmetry leaves unchanged, and the cell all of whose configurations are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk

from steersman.apps.alloys import exact
from steersman.apps.alloys.lattice import Lattice
from steersman.system.errors import BadValue
from steersman.workflows import order

GOLD = 8


def cell(cells: int = 2, **settings: int) -> Lattice:
    return Lattice(bulk("Cu", "fcc", a=3.72, cubic=True).repeat(cells), "Au", GOLD, **settings)


def test_no_symmetry_changes_what_a_surrogate_sees() -> None:
    lattice = cell(triplets=3)
    moves = torch.from_numpy(exact.symmetries())
    assert len({tuple(each) for each in moves.tolist()}) == 1536
    for configuration in lattice.random(3, seed=1):
        seen = lattice.correlations(moves[:, configuration])
        assert torch.allclose(seen, seen[:1].expand_as(seen), atol=1e-5)


def test_correlations_are_means_over_pairs_and_triangles_counted_one_by_one() -> None:
    lattice = cell(3, triplets=3)
    configuration = lattice.random(1, seed=2)
    atoms, spins = lattice.atoms(configuration[0].numpy()), 2.0 * lattice.minority(configuration)[0].numpy() - 1
    away = atoms.get_all_distances(mic=True)
    shells = 3.72 * np.sqrt(np.arange(1, 5) / 2)
    near = [np.abs(away - shell) < 0.1 for shell in shells]
    pairs = [(spins[:, None] * spins)[each].mean() for each in near]
    triangles = []
    for shell in range(3):
        i, j, k = np.nonzero(near[0][:, :, None] & near[0][None] & near[shell][:, None, :])
        triangles.append((spins[i] * spins[j] * spins[k]).mean())
    assert np.allclose(lattice.correlations(configuration)[0], [*pairs, *triangles], atol=1e-5)


@pytest.mark.parametrize(("cells", "shells"), [(2, 5), (3, 6)])
def test_pairs_of_a_far_shell_are_those_with_all_images(cells: int, shells: int) -> None:
    """In the small cell no atom of the fifth shell is the nearest image of its own."""
    lattice = cell(cells, pairs=shells)
    configuration = lattice.random(1, seed=2)
    atoms, spins = lattice.atoms(configuration[0].numpy()), 2.0 * lattice.minority(configuration)[0].numpy() - 1
    images = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3), -1).reshape(-1, 3) @ atoms.cell.array
    between = atoms.positions - atoms.positions[:, None]
    away = np.linalg.norm(between[:, :, None] + images, axis=-1)
    for shell, found in enumerate(lattice.correlations(configuration)[0, :shells].tolist(), 1):
        near = (np.abs(away - 3.72 * np.sqrt(shell / 2)) < 0.1).sum(2)
        assert found == pytest.approx((near * spins[:, None] * spins).sum() / near.sum(), abs=1e-5)


def test_a_swap_is_as_likely_as_its_reverse() -> None:
    """Every pair of a minority atom and another one is chosen alike."""
    lattice, many = cell(), 60_000
    before = lattice.random(1, seed=1)
    there = lattice.minority(before)[0]
    after = lattice.minority(lattice.swapped(before.repeat(many, 1), torch.Generator().manual_seed(1)))
    left, came = (there & ~after).nonzero()[:, 1], (~there & after).nonzero()[:, 1]
    assert len(left) == len(came) == many
    counts = torch.bincount(32 * left + came)
    counts = counts[counts > 0]
    assert len(counts) == GOLD * (32 - GOLD)
    assert ((counts - many / len(counts)) ** 2 / (many / len(counts))).sum() < 270  # chi-square of 191, p = 1e-4


def test_order_is_1_where_gold_atoms_never_touch_and_0_on_average() -> None:
    lattice = cell()
    ordered = np.concatenate([np.arange(0, 32, 4), np.setdiff1d(np.arange(32), np.arange(0, 32, 4))])  # L1_2
    assert lattice.order(torch.from_numpy(ordered)[None])[0] == pytest.approx(1, abs=1e-6)
    assert abs(lattice.order(lattice.random(4000, seed=1)).mean()) < 0.03


@pytest.mark.slow
def test_the_exact_cell_is_all_of_it_and_its_energies_are_the_workflows() -> None:
    known = exact.Exact.load()
    gold, size, orbit = exact.orbits()
    assert len(size) == 8043
    assert size.sum() == len(orbit) == 10_518_300
    assert np.array_equal(size, known.size)
    assert orbit.min() == 0
    lattice = order.lattice(GOLD)
    energy: Callable[[Atoms], float] = order.energy
    for number in (0, 4000, 8042):
        configuration = np.argsort(~gold[number], kind="stable")
        moved = exact.symmetries()[700][configuration]
        assert orbit[exact.rank(np.sort(moved[:GOLD]))] == number
        assert energy(lattice.atoms(moved)) == pytest.approx(known.energy[number], abs=2e-3)


def test_cells_and_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadValue):
        cell(1)
    for count in (0, 32):
        with pytest.raises(BadValue):
            Lattice(bulk("Cu", "fcc", a=3.72, cubic=True).repeat(2), "Au", count)
