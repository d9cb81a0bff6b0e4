"""A stirred flow forgets how it began, and goes on with the same statistics; each member has its own random numbers."""

import numpy as np
import pytest
import torch

from steersman.apps import shallow_water as sw
from steersman.apps.errors import SimulationUnstable
from steersman.apps.shallow_water.cases import DAY, GRAVITY, Climate, named
from steersman.apps.shallow_water.forcing import Forcing
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.stages.out import Out
from steersman.stages.start import Start
from steersman.system.errors import BadInput

WILD = 3.5e4  # m2/s2: a high that makes a wind, a day later, that this step cannot follow
T15 = {"case": "stirred", "truncation": 15, "step_s": 8640.0, "report_hours": 24.0}


def members(seeds: list[int], days: int, starts: list[Start] | None = None, **settings: object) -> list[list[sw.Frame]]:
    starts = [Start()] * len(seeds) if starts is None else starts
    return list(sw.run_members(starts, seeds=seeds, days=days, **(T15 | settings)))  # type: ignore[arg-type]


def states(frames: list[sw.Frame]) -> np.ndarray:
    return np.stack([frame.state for frame in frames])


def test_the_same_members_repeat_bit_for_bit_and_another_seed_is_another_member() -> None:
    first, again, other = (states(members(seeds, 3)[-1]) for seeds in ([1, 2, 3], [1, 2, 3], [1, 2, 4]))
    assert (first == again).all()
    assert (first[2] != other[2]).any()
    np.testing.assert_allclose(first[:2], other[:2], atol=1e-6 * np.abs(first).max())
    (alone,) = states(members([2], 3)[-1])
    np.testing.assert_allclose(alone, first[1], atol=1e-6 * np.abs(first).max())
    single = list(sw.run(Start(), seed=2, days=3, **T15))[-1]  # type: ignore[arg-type]
    assert (single.state == alone).all()


def test_a_member_goes_on_from_its_state_and_one_that_fails_says_why_and_ends_no_other() -> None:
    frames = members([1, 2], 2)[-1]
    ends = [Start(frame={"state": frame.state}) for frame in frames]
    no_start, wild = frames[0].state.copy(), frames[0].state.copy()
    no_start[3, 2, 2] = np.nan
    wild[3, 2, 2, 0] += WILD
    moments = members([3, 4, 5, 6], 3, [*ends, Start(frame={"state": no_start}), Start(frame={"state": wild})])
    assert all(isinstance(moment[2], BadInput) for moment in moments)
    assert isinstance(moments[-1][3], SimulationUnstable)
    alone = members([3, 4], 3, ends)
    np.testing.assert_allclose(states(moments[-1][:2]), states(alone[-1]), atol=1e-6 * np.abs(wild).max())
    with pytest.raises(BadInput):
        next(sw.run(Start(frame={"state": no_start}), seed=1, days=1, **T15))  # type: ignore[arg-type]


def test_noise_is_white_isotropic_and_in_its_band() -> None:
    sphere, climate = SphericalHarmonics(15), Climate()
    flow = sw.ShallowWater(sphere, named("stirred")(*_grid(sphere)), step_s=8640.0)
    rest = torch.zeros(*sphere.degree.shape, 3, dtype=torch.complex128)
    forcing = Forcing(sphere, climate, rest, 8640.0)
    generators = [np.random.default_rng(seed) for seed in range(400)]
    state = forcing(torch.zeros(*sphere.degree.shape, 1200, dtype=torch.complex128), generators)
    vorticity = flow.sphere.synthesis(state[:, :, :400])
    spread = vorticity.square().mean(0).sqrt() / (climate.stirring * np.sqrt(8640.0 / DAY))
    assert float(spread.mean()) == pytest.approx(1, rel=0.02)
    assert float((spread - 1).abs().max()) < 0.2, "the same everywhere on the sphere"
    low, high = climate.degrees
    outside = torch.as_tensor((sphere.degree < low) | (sphere.degree > high))
    assert not state[outside].any()
    assert not state[:, :, 400:].any()


def test_what_is_left_alone_goes_back_at_the_rates_of_the_climate() -> None:
    sphere, climate = SphericalHarmonics(15), Climate(stirring=0.0)
    rest = torch.zeros(*sphere.degree.shape, 3, dtype=torch.complex128)
    forcing, ones = Forcing(sphere, climate, rest, DAY), torch.ones(*sphere.degree.shape, 3, dtype=torch.complex128)
    kept = forcing(ones, [np.random.default_rng(1)]).real
    assert float(kept[0, 3, 0]) == pytest.approx(np.exp(-1 / climate.mean_days))
    assert float(kept[3, 3, 2]) == pytest.approx(np.exp(-1 / climate.eddy_days))
    assert float(kept[3, 3, 1]) == pytest.approx(np.exp(-1 / climate.eddy_days - 24 / climate.divergence_hours))


@pytest.mark.parametrize("truncation", [5, 15])
def test_random_heights_have_their_spread_everywhere_on_the_sphere(truncation: int) -> None:
    sphere = SphericalHarmonics(truncation)
    flow = sw.ShallowWater(sphere, named("galewsky")(*_grid(sphere)), step_s=600.0)
    rng = np.random.default_rng(1)
    heights = torch.cat([sphere.synthesis(flow.bump(rng, 30.0)[:, :, 2:3]) for _ in range(600)]) / GRAVITY
    by_latitude = heights.square().mean((0, 2)).sqrt()
    np.testing.assert_allclose(by_latitude, 30, rtol=0.08)
    assert not sphere.noise(1, truncation + 2)[:, sphere.degree > truncation].any(), "no wave that it cannot hold"


@pytest.mark.slow
def test_it_is_stationary_over_200_days_keeps_its_mass_and_longitudes_differ_behind_mountains() -> None:
    """The spread of the wind across the jet in both halves; with four mountains the mean has a period of 90 degrees."""
    winds, depths = [], []
    for day, frames in enumerate(members(list(range(16)), 320, case="stirred_mountains")):
        if day >= 120:
            winds.append(np.stack([frame.v for frame in frames]))
        depths.append(frames[0].state[0, 0, 2, 0])
    v = np.stack(winds)  # days, members, latitude, longitude
    halves = [half[:, :, 4:8].std() for half in np.split(v, 2)]
    assert halves[0] == pytest.approx(halves[1], rel=0.05)
    assert np.ptp(depths) < 1e-4 * abs(depths[0])
    mean = v.mean((0, 1))[4:8]
    apart = [np.abs(mean - np.roll(mean, shift, 1)).mean() for shift in (12, 6)]
    assert apart[0] < 0.3 * apart[1], "longitudes 90 degrees apart are alike, 45 degrees apart are not"


def test_stationary_gives_states_to_begin_from() -> None:
    archive = sw.stationary(4, 10, truncation=15, step_s=8640.0)
    assert archive.shape[0] == 8
    frames = members([1], 1, [Start(frame={"state": archive[5]})])
    assert isinstance(frames[0][0], sw.Frame)


def test_a_box_is_a_mean_by_area_and_may_lie_over_longitude_0() -> None:
    lat, lon = np.radians(sw.solver.latitudes(48)), np.radians(sw.solver.longitudes(96))
    field = np.sin(lat)[:, None] + 0 * lon
    exact = (np.sin(np.radians(60)) + np.sin(np.radians(30))) / 2  # the mean of the sine by area
    assert sw.box(field, (30, 60), (0, 45)) == pytest.approx(exact, rel=0.02)
    waves = np.cos(lon) + 0 * lat[:, None]
    assert sw.box(np.stack([waves, -waves]), (-90, 90), (-45, 45)) == pytest.approx([0.9, -0.9], abs=0.03)
    with pytest.raises(BadInput):
        sw.box(field, (30, 30.1), (0, 45))


def test_a_new_member_begins_in_the_archive_and_an_old_one_where_it_is() -> None:
    archive = np.arange(8.0)
    new = sw.of_archive(Start(archive, draw={"point": np.array([0.4])}), 1)
    assert new.frame["state"] == 3
    assert sw.of_archive(Start(archive, {"state": np.array(9.0)}), 1).frame["state"] == 9


def test_a_batch_gives_each_member_its_frames_and_one_that_fails_says_so() -> None:
    outs, archive = [Out(1), Out(2), Out(3)], sw.stationary(1, 5, truncation=15, step_s=8640.0)
    bad = Start(archive, {"state": np.full_like(archive[0], np.nan)})
    with pytest.raises(BadInput):  # as `out.fail` does outside of a batch
        list(sw.run_batch([Start(archive), bad, Start(archive)], outs, days=1, **T15))
    pairs = list(sw.run_batch([Start(archive), Start(archive)], outs[::2], days=2, **T15))
    assert [out.seed for _, out, _ in pairs] == [1, 3, 1, 3]


def _grid(sphere: SphericalHarmonics) -> tuple[np.ndarray, np.ndarray]:
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    return lat, lon
