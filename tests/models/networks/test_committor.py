"""The learned committor beside the one that is computed without trajectories."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import spsolve

from steersman.apps import mueller_brown
from steersman.models import Committor
from steersman.system.errors import BadValue

BARRIER_KT, STEP, EDGE = 8.0, 5e-3, 0.8
MOVED = 10  # time steps of a lag on the Mueller-Brown surface


def well_moves(n: int = 20_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (2 n, 1), evenly spread over a double well and one lag later, their pairs, and weights of equilibrium."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.4, 1.4, n)
    later = x - STEP * 4 * BARRIER_KT * x * (x * x - 1) + np.sqrt(2 * STEP) * rng.normal(size=n)
    return np.append(x, later)[:, None], paired(n), np.tile(np.exp(-BARRIER_KT * (x * x - 1) ** 2), 2)


def paired(n: int) -> np.ndarray:
    return np.stack([np.arange(n), n + np.arange(n)], axis=1)


def well_exact(at: np.ndarray, cells: int = 1500) -> np.ndarray:
    """The probability to be beyond EDGE before beyond -EDGE, seen at each lag, by a transfer matrix of one lag."""
    x = np.linspace(-2, 2, cells)
    middle = x - STEP * 4 * BARRIER_KT * x * (x * x - 1)
    moves = np.exp(-((x[None] - middle[:, None]) ** 2) / (4 * STEP))
    moves /= moves.sum(axis=1, keepdims=True)
    free, end = np.flatnonzero(abs(x) <= EDGE), x > EDGE
    chance = np.linalg.solve(np.eye(len(free)) - moves[np.ix_(free, free)], moves[np.ix_(free, end)].sum(axis=1))
    return np.asarray(np.interp(at, x[free], chance))


def surface_exact(spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Middles of the cells (n, 2) and the probability to come from each to well 1 before well 0."""
    points, _ = mueller_brown._grid(spacing)
    well, rates = mueller_brown.wells(points), mueller_brown.transfer(spacing)
    free, chance = np.flatnonzero((well != 0) & (well != 1)), (well == 1).astype(float)
    chance[free] = spsolve(rates[free][:, free].tocsc(), -rates[free][:, np.flatnonzero(well == 1)].sum(axis=1))
    return points, chance


@pytest.fixture(scope="module")
def of_well() -> Committor:
    x, pairs, weights = well_moves()
    return Committor.fit(x, pairs, begin=x[:, 0] < -EDGE, end=x[:, 0] > EDGE, weights=weights, hidden=(16, 16))


@pytest.mark.slow
def test_the_committor_of_a_double_well_is_the_exact_one_also_where_it_is_one_in_a_hundred(of_well: Committor) -> None:
    x = np.linspace(-0.6, 0.6, 61)
    exact = well_exact(x)
    assert exact.min() < 0.02
    np.testing.assert_allclose(of_well.chance(x[:, None]), exact, atol=0.03)
    np.testing.assert_allclose(of_well.encode(x[:, None])[:, 0], np.log(exact / (1 - exact)), atol=0.35)


@pytest.mark.slow
def test_the_committor_of_the_mueller_brown_surface_is_the_exact_one() -> None:
    points, exact = surface_exact(0.04)
    height = mueller_brown.energy(points) - mueller_brown.energy(mueller_brown.MINIMA[0])
    rng, n = np.random.default_rng(0), 20_000
    x = points[rng.choice(np.flatnonzero(height < 10), n)] + rng.uniform(-0.02, 0.02, (n, 2))
    y = x
    for _ in range(MOVED):
        y = y + mueller_brown.TIMESTEP * mueller_brown.force(y)
        y = y + np.sqrt(2 * mueller_brown.TIMESTEP) * rng.normal(size=y.shape)
    data, weights = (
        np.concatenate([x, y]),
        np.exp(mueller_brown.energy(mueller_brown.MINIMA[0]) - mueller_brown.energy(x)),
    )
    well = mueller_brown.wells(data)
    model = Committor.fit(data, paired(n), begin=well == 0, end=well == 1, weights=np.tile(weights, 2))
    between = (height < 8) & (exact > 0.02) & (exact < 0.98)
    assert np.sqrt(np.mean((model.chance(points[between]) - exact[between]) ** 2)) < 0.08


def test_before_a_way_is_known_log_odds_rise_all_the_way_from_one_state_to_the_other() -> None:
    """Members are spread evenly along them: where they are flat nobody is copied, and nobody finds the way."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-1, 0.1, (8000, 1)), rng.uniform(-0.8, 0.2, (800, 1)), rng.normal(1, 0.1, (300, 1))])
    pairs = np.stack([np.arange(8799), np.arange(1, 8800)], axis=1)
    model = Committor.fit(x, pairs, begin=x[:, 0] < -0.8, end=x[:, 0] > 0.8)
    assert model.card["entered"] == 0
    odds = model.encode(np.linspace(-0.8, 0.8, 9)[:, None])[:, 0]
    assert np.diff(odds).min() > 0.1 * np.ptp(odds) / 8
    assert odds[0] < -1 < 1 < odds[-1]


@pytest.mark.slow
def test_one_that_is_loaded_says_the_same_and_a_bias_can_follow_it(of_well: Committor, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 7)[:, None]
    of_well.save(tmp_path / "model.pt")
    np.testing.assert_array_equal(Committor.load(tmp_path / "model.pt").encode(x), of_well.encode(x))
    np.testing.assert_allclose(of_well.forward(torch.from_numpy(x)).detach().numpy(), of_well.encode(x), atol=1e-4)
    assert [weights.shape for weights, _ in of_well.dense_layers()] == [(16, 1), (16, 16), (1, 16)]


@pytest.mark.parametrize("states", [lambda x: (x < 9, x > 9), lambda x: (x < 9, x < 0), lambda x: (x < 0, x > 9)])
def test_states_that_overlap_or_have_no_frame_are_refused(states: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    x, pairs, _ = well_moves(100)
    begin, end = states(x[:, 0])
    with pytest.raises(BadValue):
        Committor.fit(x, pairs, begin=begin, end=end)
