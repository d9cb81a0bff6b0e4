"""A passive tracer: exact solutions in a prescribed wind, and what it owes to the flow that carries it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from steersman.apps.shallow_water import ShallowWater, run
from steersman.apps.shallow_water import cases as cases
from steersman.apps.shallow_water.cases import Case
from steersman.apps.shallow_water.transport import Transport
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.stages.start import Start
from steersman.system.errors import BadValue

DAY = 86400


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two on busy cores are up to twenty times slower than one."""
    torch.set_num_threads(1)


def transported(make: Callable[..., Case], truncation: int, step_s: float, days: float, alpha: float) -> float:
    """l2 error of the tracer against the exact solution."""
    sphere = SphericalHarmonics(truncation)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    case, truth = (make(lat, lon, alpha=alpha, time_s=time_s).tracer for time_s in (0.0, days * DAY))
    model = Transport(sphere, make(lat, lon, alpha=alpha), step_s=step_s)
    state = begun = model.spectral(make(lat, lon, alpha=alpha))
    for _ in range(round(days * DAY / step_s)):
        state = model.step(state)
    assert case is not None
    assert truth is not None
    assert float(state[0, 0, 0].real) == pytest.approx(float(begun[0, 0, 0].real), rel=1e-14), "the mean is kept"
    found = model.shown(state)["tracer"][0].numpy()
    weights = sphere.weights[:, None]
    return float(np.sqrt(((found - truth) ** 2 * weights).sum() / (truth**2 * weights).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, np.pi / 2 - 0.05])
def test_a_bell_carried_around_the_sphere_comes_back(alpha: float) -> None:
    """Williamson et al. (1992), case 1. The bell has a kink at its foot, so the error falls as its coefficients do."""
    coarse = transported(cases.cosine_bell, 21, 3600, 12, alpha)
    fine = transported(cases.cosine_bell, 42, 2400, 12, alpha)
    assert coarse < 0.05
    assert fine < 0.0075
    assert np.log2(coarse / fine) > 2


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_on_its_way_the_bell_is_where_the_exact_solution_has_it(alpha: float) -> None:
    assert transported(cases.cosine_bell, 42, 2400, 2, alpha) < 0.0075


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, np.pi / 4])
def test_moving_vortices_wind_the_tracer_up_as_the_exact_solution(alpha: float) -> None:
    """Nair and Jablonowski (2008); the wound tracer is smooth, so half the waves' length is a quarter of the error."""
    coarse, fine = (transported(cases.moving_vortices, truncation, 4800, 12, alpha) for truncation in (21, 42))
    assert coarse < 0.05
    assert fine < 0.0125


@pytest.mark.slow
def test_a_tracer_neither_moves_the_flow_nor_loses_mass() -> None:
    sphere = SphericalHarmonics(21)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    plain = cases.mountain(lat, lon)
    dyed = replace(plain, tracer=(1 + np.sin(lat) * np.cos(lon)) / 2)
    alone, carrying = (ShallowWater(sphere, case, step_s=3600) for case in (plain, dyed))
    one, two = alone.spectral(plain), carrying.spectral(dyed)
    amount = float(two[0, 0, 3].real)
    for _ in range(48):
        one, two = alone.step(one), carrying.step(two)
    torch.testing.assert_close(two[:, :, :3], one, rtol=1e-10, atol=1e-10)
    assert float(two[0, 0, 3].real) == pytest.approx(amount, rel=1e-14)


def test_a_uniform_tracer_stays_uniform() -> None:
    """Up to the error of the time step: the depth's waves are exponentials, the tracer's are not."""
    sphere = SphericalHarmonics(21)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    case = replace(cases.rossby_haurwitz(lat, lon), tracer=np.ones_like(lat))
    deviations = []
    for step_s in (1200, 600):
        model = ShallowWater(sphere, case, step_s=step_s)
        state = model.spectral(case)
        for _ in range(round(DAY / step_s)):
            state = model.step(state)
        deviations.append(float((model.shown(state)["tracer"] - 1).abs().max()))
    assert deviations[0] < 1e-3
    assert deviations[1] < deviations[0] / 8


def test_run_gives_the_tracer_with_every_frame() -> None:
    frame = next(run(Start(), seed=1, days=0.25, truncation=21, case="galewsky", tracer=True))
    assert frame.tracer is not None
    assert frame.tracer.shape == frame.height.shape
    assert -0.01 < frame.tracer.min() < frame.tracer.max() < 1.01
    assert "tracer" in frame.stored
    assert "tracer" not in next(run(Start(), seed=1, days=0.25, truncation=21)).stored


def test_heights_cannot_be_perturbed_in_a_prescribed_wind() -> None:
    frame = next(run(Start(), seed=1, days=0.25, truncation=21, case="cosine_bell"))
    start = Start(frame={"state": frame.state})
    with pytest.raises(BadValue, match="perturbation_m = 5"):
        next(run(start, seed=1, days=0.25, truncation=21, case="cosine_bell", perturbation_m=5.0))
