"""The torus with six wells: what trajectories show agrees with what is computed without any."""

import numpy as np
import pytest
from scipy.sparse.linalg import expm_multiply

from steersman.apps import six_wells
from steersman.apps.six_wells import exact, landscape, simulation
from steersman.stages.start import Start


def test_the_force_is_minus_the_gradient_of_the_energy() -> None:
    points, h = np.random.default_rng(0).uniform(-np.pi, np.pi, (50, 2)), 1e-5
    slope = [(six_wells.energy(points + step) - six_wells.energy(points - step)) / (2 * h) for step in np.eye(2) * h]
    np.testing.assert_allclose(six_wells.force(points), -np.stack(slope, -1), atol=1e-7)


def test_a_step_of_the_simulation_follows_the_force() -> None:
    point = np.array([3.0, -2.5])
    moved = np.array(simulation._step(*point)) - point
    np.testing.assert_allclose(moved, simulation.TIMESTEP * six_wells.force(point), rtol=1e-12)


def test_a_segment_is_a_function_of_its_start_and_seed_and_stays_on_the_torus() -> None:
    once, again = (list(six_wells.run(Start(), seed=3, steps=100)) for _ in range(2))
    assert [time for time, _ in once] == pytest.approx([0.05, 0.1, 0.15, 0.2])
    np.testing.assert_array_equal([x for _, x in once], [x for _, x in again])
    assert all((np.abs(x) <= np.pi).all() for _, x in once)


def test_wells_are_where_the_energy_is_lowest_and_350_cells_are_reachable() -> None:
    assert six_wells.wells(six_wells.CENTRES).tolist() == [0, 1, 2, 3, 4, 5]
    assert six_wells.reachable().sum() == 350
    assert set(six_wells.cells(six_wells.CENTRES)) <= set(np.flatnonzero(six_wells.reachable()))


def test_a_step_keeps_the_density_of_the_simulation() -> None:
    """The mean energy after one step, by Gauss-Hermite quadrature over the noise, is that before it."""
    points, dt = exact._points(120), simulation.TIMESTEP
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    moved = points + dt * six_wells.force(points)
    change = -six_wells.energy(points)
    for (i, j), share in np.ndenumerate(np.outer(weights, weights) / weights.sum() ** 2):
        change += share * six_wells.energy(moved + np.sqrt(2 * dt) * np.array([nodes[i], nodes[j]]))
    drift = {step: np.average(change, weights=landscape.density(points, step)) for step in (0.0, dt)}
    assert drift[0.0] > 1e-3, "exp(-energy) is what continuous motion keeps"
    assert abs(drift[dt]) < 0.1 * drift[0.0]


def test_the_transfer_matrix_keeps_equilibrium_and_detailed_balance() -> None:
    rates, grid = exact.transfer(40), 40
    weight = np.exp(-six_wells.energy(exact._points(grid)))
    np.testing.assert_allclose(rates.sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(weight @ rates, 0, atol=1e-6 * weight.max())
    flow = (rates.multiply(weight[:, None])).tocsr()
    assert abs(flow - flow.T).max() < 1e-9 * abs(flow).max()


def test_populations_and_passage_times_converge_with_the_grid() -> None:
    np.testing.assert_allclose(exact.populations(200), exact.populations(400), rtol=0.02)  # the wells' edges are rough
    np.testing.assert_allclose(exact.first_passage_times(2, 60), exact.first_passage_times(2, 120), rtol=0.05)


@pytest.mark.slow
def test_trajectories_pass_as_often_as_the_transfer_matrix_says() -> None:
    """From well 1 into well 5 within 3 time units: 1,000 independent particles, 4 standard errors."""
    rng, dt, n = np.random.default_rng(0), simulation.TIMESTEP, 1000
    outside = np.flatnonzero(six_wells.wells(exact._points(80)) != 5)
    still_out = expm_multiply(3.0 * exact.transfer(80).tocsr()[outside][:, outside], np.ones(len(outside)))
    begin = np.linalg.norm(exact._points(80)[outside] - landscape.CENTRES[1], axis=1).argmin()
    x, passed = np.repeat(landscape.CENTRES[1:2], n, 0), np.zeros(n, bool)
    for _ in range(round(3.0 / dt)):
        x = x + dt * six_wells.force(x) + np.sqrt(2 * dt) * rng.standard_normal(x.shape)
        passed |= six_wells.wells(x) == 5
    share = 1 - still_out[begin]
    assert passed.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))
