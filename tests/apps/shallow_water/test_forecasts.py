"""Forecasts of jets and their errors: what the measure promises, and that runs are told apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steersman.apps.shallow_water import forecasts as forecasts
from steersman.apps.shallow_water import rows_for_networks, run
from steersman.models.networks.unet import SphericalUNet
from steersman.stages.start import Start

DAYS, EVERY_S = 1.0, 6 * 3600.0


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray]:
    """Frames of two whole runs and of one that was cut short, as a walker leaves them."""
    torch.set_num_threads(1)
    frames = [
        frame
        for number, days in enumerate((DAYS, 0.5, DAYS))
        for frame in run(Start(), seed=number, days=days, truncation=21)
    ]
    columns = {name: np.stack([getattr(frame, name) for frame in frames]) for name in (*forecasts.FIELDS, "state")}
    return columns | {"time": np.array([frame.time_days for frame in frames])}


def test_whole_runs_are_told_from_one_that_was_cut_short(stored: dict[str, np.ndarray]) -> None:
    runs = forecasts.runs_of(stored)
    assert runs.shape == (2, 4, 3, 32, 64)
    np.testing.assert_array_equal(runs[1, :, 1], stored["u"][6:])


def test_the_mean_over_the_sphere_is_wrong_by_one_and_the_truth_by_nothing(stored: dict[str, np.ndarray]) -> None:
    true = forecasts.runs_of(stored)
    flat = forecasts.averaged(true)[..., None, None] + np.zeros_like(true)
    np.testing.assert_allclose(forecasts.vrmse(flat, true), 1, rtol=1e-6)
    np.testing.assert_array_equal(forecasts.vrmse(true, true), 0)


def test_a_solver_as_fine_as_the_truth_forecasts_the_truth(stored: dict[str, np.ndarray]) -> None:
    solver = forecasts.jet_solver(21, every_s=EVERY_S)
    begun = torch.view_as_complex(torch.from_numpy(stored["state"][[0, 6]])).permute(1, 2, 3, 0)
    state = forecasts.truncated(solver, begun)
    found = forecasts.rollout(solver, state, times=4, every_s=EVERY_S)
    assert forecasts.vrmse(found, forecasts.runs_of(stored)).max() < 1e-4, "float32, another order of members"


@pytest.mark.parametrize("truncation", [5, 12])
def test_a_network_learns_from_frames_of_any_truncation(truncation: int) -> None:
    """Their smallest grids have 8 and 20 latitudes, of which the second cannot be halved three times."""
    rows = rows_for_networks(truncation)
    frames = list(run(Start(), seed=1, days=0.5, truncation=truncation, rows=rows))
    columns = {name: np.stack([getattr(frame, name) for frame in frames]) for name in forecasts.FIELDS}
    runs = forecasts.runs_of(columns | {"time": np.array([0.25, 0.5])})
    model = SphericalUNet.fit(runs, width=8, epochs=1, **forecasts.laws(truncation))
    assert np.isfinite(forecasts.forecast(model, runs)).all()
