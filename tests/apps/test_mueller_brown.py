"""The Mueller-Brown surface: where its minima are, and that trajectories agree with what is computed without any."""

import numpy as np
import pytest
from scipy.sparse.linalg import expm_multiply

from steersman.apps import mueller_brown
from steersman.stages.start import Start


def test_the_force_is_minus_the_gradient_and_vanishes_at_the_minima() -> None:
    points, h = np.random.default_rng(0).uniform((-1.5, -0.4), (1.1, 2.0), (50, 2)), 1e-6
    slope = [
        (mueller_brown.energy(points + step) - mueller_brown.energy(points - step)) / (2 * h) for step in np.eye(2) * h
    ]
    np.testing.assert_allclose(mueller_brown.force(points), -np.stack(slope, -1), rtol=1e-5, atol=1e-4)
    assert np.abs(mueller_brown.force(mueller_brown.MINIMA)).max() < 0.05  # of hundreds nearby
    published = np.array([-146.70, -108.17, -80.77])  # in the units of the paper
    np.testing.assert_allclose(mueller_brown.energy(mueller_brown.MINIMA) * mueller_brown.KT, published, atol=0.01)


def test_wells_and_cells_are_where_the_energy_is_low() -> None:
    assert mueller_brown.wells(mueller_brown.MINIMA).tolist() == [0, 1, 2]
    everywhere = mueller_brown._grid(0.05)[0]
    assert len(set(mueller_brown.cells(everywhere)) - {-1}) == 334
    assert mueller_brown.cells(np.array([[9.0, 9.0], mueller_brown.LOW])).tolist() == [-1, -1]


def test_exact_answers_converge_with_the_grid() -> None:
    np.testing.assert_allclose(mueller_brown.populations(0.01), mueller_brown.populations(0.02), rtol=0.05)
    coarse, fine = (mueller_brown.first_passage_times(1, spacing)[0] for spacing in (0.04, 0.02))
    assert coarse == pytest.approx(fine, rel=0.02)


@pytest.mark.slow
def test_trajectories_pass_as_often_as_the_transfer_matrix_says() -> None:
    """From well 2 into well 1 within 0.3 time units: 1,000 particles, 4 standard errors."""
    rng, dt, n, spacing, time = np.random.default_rng(0), mueller_brown.TIMESTEP, 1000, 0.02, 0.3
    points = mueller_brown._grid(spacing)[0]
    low = np.flatnonzero(mueller_brown.energy(points) - mueller_brown.energy(points).min() < 25)  # nobody comes higher
    outside = low[mueller_brown.wells(points[low]) != 1]
    still_out = expm_multiply(time * mueller_brown.transfer(spacing)[outside][:, outside], np.ones(len(outside)))
    share = 1 - still_out[np.linalg.norm(points[outside] - mueller_brown.MINIMA[2], axis=1).argmin()]
    x, passed = np.repeat(mueller_brown.MINIMA[2:3], n, 0), np.zeros(n, bool)
    for _ in range(round(time / dt)):
        x = x + dt * mueller_brown.force(x) + np.sqrt(2 * dt) * rng.standard_normal(x.shape)
        passed |= mueller_brown.wells(x) == 1
    assert 0.1 < share < 0.9
    assert passed.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def test_a_segment_is_a_function_of_its_start_and_seed() -> None:
    once, again = (list(mueller_brown.run(Start(), seed=3, steps=100)) for _ in range(2))
    assert [time for time, _ in once] == pytest.approx([0.01, 0.02])
    np.testing.assert_array_equal([x for _, x in once], [x for _, x in again])
