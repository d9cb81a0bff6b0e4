"""Shallow water on the sphere: transforms, exact solutions, conservation, other people's numbers, restarts."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from steersman.apps.errors import SimulationUnstable
from steersman.apps.shallow_water import STEPS, ShallowWater, default_step, run
from steersman.apps.shallow_water import cases as cases
from steersman.apps.shallow_water.cases import Case
from steersman.apps.shallow_water.scheme import phi
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.stages.start import Start
from steersman.system.errors import BadInput, BadValue, UnknownName

from .reference import invariants, step_explicitly

DAY = 86400


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two on busy cores are up to twenty times slower than one."""
    torch.set_num_threads(1)


def solver(
    make: Callable[..., Case],
    truncation: int = 42,
    step_s: float = 1200,
    dtype: torch.dtype = torch.float64,
    **options: float,
) -> tuple[ShallowWater, Case]:
    sphere = SphericalHarmonics(truncation, dtype=dtype)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    case = make(lat, lon, **options)
    return ShallowWater(sphere, case, step_s=step_s), case


def after(model: ShallowWater, case: Case, days: float) -> torch.Tensor:
    state = model.spectral(case)
    for _ in range(round(days * DAY / model.step_s)):
        state = model.step(state)
    return state


def error_of_depth(model: ShallowWater, state: torch.Tensor, truth: np.ndarray) -> float:
    """l2 error of Williamson et al. (1992), eq. 83."""
    depth = model.fields(state)[0][0].double().numpy()
    weights = model.sphere.weights[:, None]
    return float(np.sqrt(((depth - truth) ** 2 * weights).sum() / (truth**2 * weights).sum()))


def test_the_transform_gives_back_what_it_was_given() -> None:
    sphere = SphericalHarmonics(21)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2, *sphere.degree.shape, 3)) * (sphere.degree <= 21)[..., None]
    values[1, 0] = 0
    spectral = torch.as_tensor(values[0] + 1j * values[1])
    torch.testing.assert_close(sphere.analysis(sphere.synthesis(spectral)), spectral, rtol=0, atol=1e-13)


def test_harmonics_are_orthonormal_under_the_quadrature() -> None:
    """The mean square of a field is the sum over its coefficients (Parseval), counting negative orders too."""
    sphere = SphericalHarmonics(10)
    field = torch.as_tensor(np.random.default_rng(2).normal(size=(1, sphere.rows, sphere.columns)))
    smooth = sphere.synthesis(sphere.analysis(field) * sphere.inside)
    power = sphere.analysis(smooth).abs()[..., 0].numpy() ** 2
    spectral = (power[0].sum() + 2 * power[1:].sum()) / 2
    on_grid = (smooth[0].numpy() ** 2 * sphere.weights[:, None]).sum() / (2 * sphere.columns)
    assert on_grid == pytest.approx(spectral, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_phi_functions_meet_at_the_border_of_their_series(n: int) -> None:
    z = 1j * np.array([0.0, 0.999999, 1.000001])
    values = phi(n, z)
    assert values[0] == pytest.approx([1, 1 / 2, 1 / 6][n - 1])
    assert values[1] == pytest.approx(values[2], abs=1e-5)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
@pytest.mark.parametrize("alpha", [0.0, np.pi / 2 - 0.05])
def test_steady_flow_stays(alpha: float, dtype: torch.dtype, bound: float) -> None:
    """Williamson et al. (1992), case 2, at T42 to day 5."""
    model, case = solver(cases.zonal_flow, step_s=2400, dtype=dtype, alpha=alpha)
    assert error_of_depth(model, after(model, case, 5), case.depth) < bound


@pytest.mark.parametrize(
    ("make", "mass", "energy", "enstrophy"),
    [
        (cases.mountain, 5619.9326, 1.5690726e8, 7.20444e-13),
        (cases.rossby_haurwitz, 9522.9902, 4.6255190e8, 5.536494e-13),
    ],
)
def test_global_means_at_the_beginning_are_those_of_stswm(
    make: Callable[..., Case], mass: float, energy: float, enstrophy: float
) -> None:
    """What NCAR's spectral transform shallow water model, version 2, printed at T42."""
    model, case = solver(make)
    found = invariants(model, case, model.spectral(case))
    assert list(found.values()) == pytest.approx([mass, energy, enstrophy], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [cases.mountain, cases.rossby_haurwitz, cases.galewsky])
def test_mass_energy_and_enstrophy_are_kept(make: Callable[..., Case]) -> None:
    """Over four days at T42 without diffusion."""
    model, case = solver(make)
    before, now = (invariants(model, case, state) for state in (model.spectral(case), after(model, case, 4)))
    drift = {name: abs(now[name] / before[name] - 1) for name in before}
    assert drift["mass"] < 1e-14
    assert drift["energy"] < 1e-7
    assert drift["potential_enstrophy"] < 1e-4


@pytest.mark.slow
def test_the_error_falls_with_the_step_to_the_fourth_order() -> None:
    reference, case = solver(cases.galewsky, 31, 300)
    truth = reference.fields(after(reference, case, 1))[0][0].numpy()
    errors = []
    for step_s in (2400, 1200):
        model, _ = solver(cases.galewsky, 31, step_s)
        errors.append(error_of_depth(model, after(model, case, 1), truth))
    assert 3.5 < np.log2(errors[0] / errors[1]) < 5.5


def test_the_explicit_scheme_and_the_exponential_one_agree_to_the_fourth_order() -> None:
    """Only one of them takes gravity waves by their exponentials: half the step is a sixteenth of the difference."""
    differences = []
    for step_s in (300, 150):
        model, case = solver(cases.galewsky, 21, step_s)
        one = two = model.spectral(case)
        for _ in range(round(DAY / 8 / model.step_s)):
            one, two = model.step(one), step_explicitly(model, case, two)
        differences.append(error_of_depth(model, one, model.fields(two)[0][0].numpy()))
    assert differences[1] < 5e-8
    assert 12 < differences[0] / differences[1] < 24


@pytest.mark.slow
def test_a_jet_that_is_not_disturbed_stays_zonal() -> None:
    """For five days, as the authors say; what is not zonal is round-off that grows with the instability."""
    model, case = solver(cases.galewsky, perturbed=False)
    wind = model.fields(after(model, case, 5))[1][0].numpy()
    assert np.abs(wind - wind.mean(axis=1, keepdims=True)).max() < 1e-8, "m/s"


def test_the_jet_s_bump_has_the_widths_of_its_authors() -> None:
    """120 m cos(latitude) at 45 degrees; e times less 1/3 away to the east, and 1/15 to the north."""
    lat, lon = np.array([[np.pi / 4] * 2, [np.pi / 4 + 1 / 15] * 2]), np.array([[0, 1 / 3]] * 2)
    bump = cases.galewsky(lat, lon).depth - cases.galewsky(lat, lon, perturbed=False).depth
    np.testing.assert_allclose(bump, 120 * np.cos(lat) * np.exp([[0, -1], [-1, -2]]), rtol=1e-10)


def test_members_side_by_side_are_each_alone() -> None:
    model, case = solver(cases.galewsky, 21)
    other = cases.rossby_haurwitz(*model.grid)
    alone = [model.step(model.spectral(each)) for each in (case, other)]
    both = torch.stack([model.spectral(each) for each in (case, other)], dim=-1).flatten(2)
    torch.testing.assert_close(model.step(both), torch.stack(alone, dim=-1).flatten(2), rtol=1e-12, atol=1e-12)


def test_runs_side_by_side_in_threads_are_each_alone() -> None:
    """They share a solver, which is kept warm."""

    def last(seed: int) -> np.ndarray:
        return list(run(Start(), seed=seed, days=1, truncation=21))[-1].state

    alone = [last(seed) for seed in (1, 2, 3)]
    with ThreadPoolExecutor(3) as threads:
        np.testing.assert_array_equal(list(threads.map(last, (1, 2, 3))), alone)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_solver_at_work_goes_on_as_it_does(copied: Callable[[ShallowWater], ShallowWater]) -> None:
    model, case = solver(cases.galewsky, 21)
    state = after(model, case, 0.1)
    assert torch.equal(copied(model).step(state), model.step(state))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("case", "tracer"), [("jet", False), ("mountain", True), ("moving_vortices", True)])
def test_a_run_goes_on_bit_for_bit_from_a_stored_frame(case: str, tracer: bool, dtype: torch.dtype) -> None:
    settings: dict[str, Any] = {"case": case, "tracer": tracer, "truncation": 21, "dtype": dtype}
    unbroken = list(run(Start(), seed=5, days=1.0, **settings))
    first = list(run(Start(), seed=5, days=0.5, **settings))[-1]
    second = list(run(Start(frame={"state": first.state}), seed=6, days=0.5, **settings))[-1]
    np.testing.assert_array_equal(second.state, unbroken[-1].state)
    np.testing.assert_array_equal(second.vorticity, unbroken[-1].vorticity)


def test_a_perturbed_branch_is_another_with_the_same_mass() -> None:
    parent = list(run(Start(), seed=5, days=0.5, truncation=21, dtype=torch.float64))[-1]
    start = Start(frame={"state": parent.state})
    one, two, again = (
        list(run(start, seed=seed, days=0.25, truncation=21, perturbation_m=5.0, dtype=torch.float64))[-1]
        for seed in (1, 2, 1)
    )
    assert np.abs(one.height - two.height).max() > 1
    assert np.abs(one.height - two.height).max() < 100
    np.testing.assert_array_equal(one.state, again.state)
    assert one.state[0, 0, 2, 0] == pytest.approx(parent.state[0, 0, 2, 0], rel=1e-14)


def test_parameters_begin_anew_whatever_frame_is_given() -> None:
    point = np.linspace(-1, 1, 8)
    first = next(run(Start(), seed=5, days=0.25, truncation=21, parameters=point))
    other = next(run(Start(frame={"state": first.state}), seed=6, days=0.25, truncation=21, parameters=point))
    np.testing.assert_array_equal(first.state, other.state)


def test_every_default_step_is_safe_and_a_part_of_a_day() -> None:
    for truncation in (21, 31, 42, 63, 85, 106, 170, 213, 341):
        step = default_step(truncation)
        assert step in STEPS
        assert DAY % step == 0
        assert step * truncation < 100_000


@pytest.mark.slow
def test_a_rossby_haurwitz_wave_stands_a_week_of_default_steps() -> None:
    """With a third more, its smallest waves grow by 3 % a step, and it blows up on day 7."""
    frames = run(Start(), seed=1, days=7, case="rossby_haurwitz", truncation=85, diffusion_hours=28, report_hours=24)
    strongest = [np.hypot(frame.u, frame.v).max() for frame in frames]
    assert max(strongest) < 102, "m/s; it begins with 100"


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"case": "galewski"}, UnknownName, "did you mean 'galewsky'"),
        ({"truncation": 2}, BadValue, "truncation = 2: "),
        ({"truncation": "42"}, BadValue, "truncation = 42: "),
        ({"perturbation_m": math.nan}, BadValue, "perturbation_m = nan: "),
        ({"truncation": 21.5}, BadValue, "truncation = 21.5: "),
        ({"truncation": 10, "case": "stirred"}, BadValue, "truncation = 10: give 12 or more"),
        ({"truncation": 42, "step_s": 4800}, BadValue, "at most 3571 s at T42"),
        ({"truncation": 42, "step_s": 0.0}, BadValue, "step_s = 0.0: "),
        ({"truncation": 42, "rows": 62}, BadValue, "rows = 62"),
        ({"truncation": 42, "rows": 65}, BadValue, "an even number, at least 64"),
        ({"days": math.nan}, BadValue, "days = nan: "),
        ({"days": 1.1}, BadValue, "days = 1.1: "),
        ({"days": 0.1}, BadValue, "multiple of report_hours"),
        ({"report_hours": 0}, BadValue, "report_hours = 0: "),
        ({"diffusion_hours": -1.0}, BadValue, "diffusion_hours = -1.0: "),
        ({"device": "cuba"}, UnknownName, "device 'cuba'"),
        ({"parameters": np.zeros(7)}, BadValue, "parameters = 7: "),
        ({"parameters": np.full(8, np.nan)}, BadValue, "parameters = 0: "),
        ({"case": "mountain", "parameters": np.zeros(8)}, BadValue, "none in cases other than 'jet'"),
    ],
)
def test_what_cannot_run_is_told_before_the_first_step(
    options: dict[str, object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told) as raised:
        next(run(Start(), **({"seed": 1, "days": 1} | options)))  # type: ignore[arg-type]
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state[:20, :22], "another truncation"),
        (lambda state: state * np.nan, "NaN"),
        (lambda state: state * [[[1], [1], [-1]]], "the depth is -[0-9.e+]+ m"),
        (lambda state: state * [[[50], [1], [1]]], "a wind of [0-9]+ m/s allows steps of at most [0-9]+ s, not 3600 s"),
    ],
)
def test_a_start_that_no_run_can_go_on_from_is_told_before_the_first_step(
    change: Callable[[np.ndarray], np.ndarray], told: str
) -> None:
    frame = next(run(Start(), seed=1, days=0.25, truncation=21))
    with pytest.raises(BadInput, match=told):
        next(run(Start(frame={"state": change(frame.state)}), seed=1, days=1, truncation=21))
    with pytest.raises(UnknownName, match="state"):
        next(run(Start(frame={"vorticity": frame.vorticity}), seed=1, days=1, truncation=21))


def test_a_flow_that_blows_up_is_told_instead_of_given() -> None:
    """Waves 2 km high on 10 km of water pass for a start; where they meet, the wind is too strong for the step."""
    frame = next(run(Start(), seed=1, days=0.25, truncation=21))
    start = Start(frame={"state": frame.state})
    with pytest.raises(SimulationUnstable, match=r"seed 1.*wind") as raised:
        list(run(start, seed=1, days=20, truncation=21, perturbation_m=2600, diffusion_hours=None))
    assert float(raised.value.time.removeprefix("day ")) > 0.25, "the frames before have been given"
