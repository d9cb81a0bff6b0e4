"""Laws of the moist flow: humidity is carried without loss, comes from the sea, goes with rain, and moves nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.storms import DIMENSIONS, Conditions, MoistFlow, run
from steersman.apps.storms.flow import DIFFUSION_HOURS, STEP_S
from steersman.system.errors import BadValue

CONDITIONS = Conditions((85.0, 70.0), (45.0, 42.0), source_days=2.0, days=5.0)


@pytest.fixture(scope="module")
def flow() -> MoistFlow:
    return MoistFlow(CONDITIONS, torch.float64)


def mean(flow: MoistFlow, fields: torch.Tensor) -> float:
    """Over the sphere, by quadrature on the grid."""
    return float((fields.numpy() * flow.sphere.weights[:, None]).sum() / (2 * flow.sphere.columns))


def moisture(flow: MoistFlow, state: torch.Tensor) -> float:
    return mean(flow, flow.sphere.synthesis(state[:, :, 3:]))


def test_the_flow_alone_keeps_humidity(flow: MoistFlow) -> None:
    state = begun = flow.begin(1)
    for _ in range(12):
        state = flow.water.step(state)
    assert moisture(flow, state) == pytest.approx(moisture(flow, begun), rel=1e-13)


def test_humidity_changes_by_what_the_sea_gives_less_what_rains(flow: MoistFlow) -> None:
    """Budgets are closed by quadrature on the grid, the state by its coefficients: they agree to rounding."""
    state, given, rained = flow.begin(1), 0.0, 0.0
    state[:, :, 3] *= 2  # more than the air holds
    before = moisture(flow, state)
    for _ in range(6):
        gained, lost = flow.exchanged(flow.water.step(state))
        assert gained.min() >= 0
        assert lost.min() >= 0
        given, rained, state = given + mean(flow, gained), rained + mean(flow, lost), flow.step(state)
    assert given > 0
    assert rained > 0
    assert moisture(flow, state) - before == pytest.approx(given - rained, rel=1e-9)


def test_humidity_moves_nothing(flow: MoistFlow) -> None:
    """Two hours are those of shallow water without a tracer, bit for bit but for the order of sums."""
    dry = replace(flow.case, tracer=None)
    water = ShallowWater(flow.sphere, dry, step_s=STEP_S, diffusion_hours=DIFFUSION_HOURS)
    moist = flow.begin(1)
    plain = moist[:, :, :3].clone()
    for _ in range(4):
        moist, plain = flow.step(moist), water.step(plain)
    torch.testing.assert_close(moist[:, :, :3], plain, rtol=1e-10, atol=1e-10)


def test_two_jets_alone_stay_as_they_are(flow: MoistFlow) -> None:
    """Each is balanced, and neither reaches the other: without random heights hardly a wind to the poles arises."""
    state = flow.water.spectral(flow.case)
    for _ in range(12):
        state = flow.water.step(state)
    shown = {name: field[0] for name, field in flow.water.shown(state).items()}
    assert shown["v"].abs().max() < 0.1
    for name in ("u", "v", "height"):
        assert (shown[name] - shown[name].mean(1, keepdim=True)).abs().max() < 1e-8, "nor anything but zonal flow"
    north, south = shown["u"][:32].max(), shown["u"][32:].max()
    assert north == pytest.approx(85, rel=0.06)  # the sharpest jets are smoothed
    assert south == pytest.approx(70, rel=0.06)


@pytest.mark.slow
def test_a_seed_names_a_flow() -> None:
    point = np.full(DIMENSIONS, 0.0)
    first, again, other = (run(point, seed)["observed"] for seed in (1, 1, 2))
    assert first.dtype == np.float32
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("point", [[0.5] * 5, [0.5] * 5 + [1.5], [float("nan")] * 6])
def test_a_point_outside_the_cube_is_refused(point: list[float]) -> None:
    with pytest.raises(BadValue):
        Conditions.of(point)
