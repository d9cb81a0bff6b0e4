"""The batched flat chain against exact counts: detailed balance, and the density of states of Ising models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from steersman.apps.alloys.flat import Bins, Flat, density, stationary


def beside(edge: int, dimensions: int) -> Tensor:
    """(dimensions, sites) the next site along each axis of a periodic cube."""
    at = np.arange(edge**dimensions).reshape((edge,) * dimensions)
    return torch.from_numpy(np.stack([np.roll(at, -1, axis).ravel() for axis in range(dimensions)]))


def ising(spins: Tensor, edge: int, dimensions: int) -> Tensor:
    return -torch.stack([(spins * spins[:, along]).sum(1) for along in beside(edge, dimensions)]).sum(0)


def flipped(spins: Tensor, generator: torch.Generator) -> Tensor:
    at = torch.randint(spins.shape[1], (len(spins), 1), generator=generator)
    return spins.scatter(1, at, -spins.gather(1, at))


def all_spins(sites: int) -> Tensor:
    return torch.tensor([*itertools.product((-1.0, 1.0), repeat=sites)])


def exact_squares(edge: int = 8) -> np.ndarray:
    """ln of the share of states with each number of unlike neighbours, (2 edge^2 + 1,), by a transfer matrix.

    Spins are added one by one; a state is a row of them. By symmetry the first row need not be each of the 2^edge.
    """
    size, bonds = 1 << edge, 2 * edge * edge
    rows = np.arange(size)
    bits = (rows[:, None] >> np.arange(edge)) & 1
    along = (bits != np.roll(bits, -1, 1)).sum(1)
    total, known = np.zeros(bonds + 1, object), dict[int, np.ndarray]()
    for first in range(size):
        turned = [
            ((each >> k) | (each << (edge - k))) & (size - 1) for each in (first, size - 1 - first) for k in rows[:edge]
        ]
        kind = min(min(turned), *(int(f"{each:0{edge}b}"[::-1], 2) for each in turned))
        if kind not in known:
            counts = np.zeros((size, bonds + 1), np.uint64)
            counts[first, along[first]] = 1
            for row in range(edge):
                for spin in range(edge):
                    other = counts[rows ^ (1 << spin)]
                    counts[:, 1:] = counts[:, 1:] + other[:, :-1]
                if row < edge - 1:
                    moved = np.zeros_like(counts)
                    for more in np.unique(along):
                        moved[along == more, more:] = counts[along == more, : bonds + 1 - more]
                    counts = moved
            known[kind] = counts[first].astype(object)
        total = total + known[kind]
    assert sum(total) == 2 ** (edge * edge)
    return np.array([math.log(each) if each else -math.inf for each in total]) - edge * edge * math.log(2)


@pytest.mark.slow
def test_the_chain_is_in_detailed_balance_with_its_weights_on_all_states_of_a_cube() -> None:
    """Flows between any two of the 256 states of 2 x 2 x 2 spins are alike, whatever ln g is."""
    states, repeats = all_spins(8), 4000
    bins = Bins(-24.0, 8.0, torch.arange(7))
    ln_g = torch.from_numpy(np.random.default_rng(1).normal(size=7))
    weight = (-ln_g[bins(ising(states, 2, 3))]).exp().numpy()
    chain = Flat(
        states.repeat(repeats, 1),
        lambda spins: ising(spins, 2, 3),
        flipped,
        bins,
        ln_g,
        torch.Generator().manual_seed(1),
    )
    chain.step()
    number = ((chain.states > 0).long() @ (1 << torch.arange(7, -1, -1))).numpy()
    moves = np.zeros((256, 256))
    np.add.at(moves, (np.tile(np.arange(256), repeats), number), 1)
    flow = weight[:, None] * moves
    error = np.sqrt(weight[:, None] ** 2 * moves + (weight[:, None] ** 2 * moves).T)
    off = ~np.eye(256, dtype=bool) & (error > 0)
    assert off.sum() == 256 * 8
    assert np.abs((flow - flow.T)[off] / error[off]).max() < 5.0
    assert torch.equal(chain.bin, bins(ising(chain.states, 2, 3)))


@pytest.mark.slow
def test_all_states_of_a_small_square_are_counted() -> None:
    exact = np.unique(ising(all_spins(16), 4, 2).numpy(), return_counts=True)
    spins = 2.0 * torch.randint(2, (64, 16), generator=torch.Generator().manual_seed(1)) - 1
    found = density(spins, lambda s: ising(s, 4, 2), flipped, width=4.0, learn=1500, measure=3000, seed=1)
    assert len(found.ln_g) == len(exact[0])
    away = found.ln_g - np.log(exact[1] / 2**16)
    assert np.abs(away).max() < 0.1
    assert np.sqrt(np.mean((away / found.error) ** 2)) < 3.0
    assert found.steps == 64 * (1 + 1500 + 1 + 3000)


@pytest.mark.slow
def test_what_lies_above_the_top_is_one_bin() -> None:
    spins = 2.0 * torch.randint(2, (64, 16), generator=torch.Generator().manual_seed(1)) - 1
    found = density(spins, lambda s: ising(s, 4, 2), flipped, width=4.0, learn=500, measure=1500, seed=1, top=2.0)
    energies = ising(all_spins(16), 4, 2)
    exact = np.bincount(found.bins(energies).numpy()) / 2**16
    assert len(found.ln_g) == len(exact)
    assert np.abs(np.exp(found.ln_g) / exact - 1).max() < 0.1


@pytest.mark.slow
def test_the_density_of_states_of_an_8_x_8_ising_model_is_that_of_the_transfer_matrix() -> None:
    exact = exact_squares()
    spins = 2.0 * torch.randint(2, (256, 64), generator=torch.Generator().manual_seed(1)) - 1
    found = density(spins, lambda s: ising(s, 8, 2), flipped, width=4.0, learn=4000, measure=12_000, seed=1)
    levels = np.isfinite(exact)
    assert len(found.ln_g) == levels.sum()
    away = np.abs(found.ln_g - exact[levels])
    assert (away / np.abs(exact[levels] + 64 * math.log(2))).mean() < 0.01
    assert math.sqrt((away**2).mean()) < 0.1


def test_moves_between_bins_tell_how_large_they_are() -> None:
    g = np.exp(-np.arange(0.0, 80.0, 2.0))  # over 30 orders of magnitude
    there = 0.1 * np.minimum(1, g[None] / g[:, None]) * (np.abs(np.subtract.outer(np.arange(40), np.arange(40))) == 1)
    moves = there + np.diag(1 - there.sum(1))
    assert np.allclose(stationary(1e6 * moves), np.log(g / g.sum()), atol=1e-6)


def test_a_bin_that_is_found_late_does_not_stay_behind() -> None:
    """Twenty states in a row, all alike; the way from the tenth to the next is rarely proposed."""

    def moved(at: Tensor, generator: torch.Generator) -> Tensor:
        up = 2 * torch.randint(2, at.shape, generator=generator) - 1
        to = at + up
        gate = torch.minimum(at, to) == 9
        shut = gate & (torch.rand(at.shape, generator=generator) > 0.01)
        return torch.where(shut | (to < 0) | (to > 19), at, to)

    bins, ln_g = Bins(0.0, 1.0, torch.arange(20)), torch.full((20,), -torch.inf, dtype=torch.float64)
    chain = Flat(
        torch.zeros((8, 1), dtype=torch.int64), lambda at: at[:, 0].double(), moved, bins, ln_g,
        torch.Generator().manual_seed(2),
    )  # fmt: skip
    chain.learn(60)
    assert ln_g[10:].isinf().all(), "the far half is not found yet"
    before = float(ln_g[:10].min())
    chain.learn(2000)
    assert not ln_g.isinf().any()
    assert float(ln_g[10:].min()) >= before
    assert float(ln_g.max() - ln_g.min()) < 20.0
