"""The rule on shapes whose class is known; and that it knows neither where longitudes begin nor which pole is which."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steersman.apps.shallow_water.cases import GRAVITY
from steersman.apps.shallow_water.solver import latitudes, longitudes
from steersman.apps.storms import CHANNELS, Conditions, MoistFlow, ruled, seen
from steersman.apps.storms.rule import CYCLONE, FLUX, RIVER, SPIN, classes
from steersman.apps.storms.simulation import CHOICES, ERRORS, SEEN, blurred, channels
from steersman.system.errors import UnknownName

ROWS, COLUMNS = 64, 128
LAT, LON = latitudes(ROWS)[:, None], longitudes(COLUMNS)


def low(lat: float, lon: float, spin: float = 2 * SPIN) -> tuple[np.ndarray, np.ndarray]:
    """Height and vorticity of a round depression of 300 m with a radius of some 6 degrees."""
    a, b = np.radians(LAT), np.radians(lat)
    cosine = np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(np.radians(LON - lon))
    shape = np.exp(-((np.degrees(np.arccos(np.clip(cosine, -1, 1))) / 6) ** 2))
    return 1e4 - 300 * shape, spin * np.sign(lat) * shape


def band(south: float, north: float, west: float, east: float, flux: float = 2 * FLUX) -> np.ndarray:
    """A flux to the north in a box, also one across longitude 0."""
    inside = (np.abs(LAT - (south + north) / 2) < (north - south) / 2) & ((LON - west) % 360 < (east - west) % 360)
    return np.where(inside, flux, 0.0)


STILL = np.full((ROWS, COLUMNS), 1e4), np.zeros((ROWS, COLUMNS))


@pytest.mark.parametrize("lat", [45.0, -45.0])
@pytest.mark.parametrize("lon", [120.0, 0.0])
def test_a_spinning_low_is_a_cyclone_in_both_hemispheres(lat: float, lon: float) -> None:
    found = classes(*low(lat, lon), np.zeros((ROWS, COLUMNS)))
    nearest = np.unravel_index(np.abs(LAT - lat).argmin() * COLUMNS + np.abs(LON - lon).argmin(), found.shape)
    assert found[nearest] == CYCLONE
    far = np.abs(LAT - lat) > 8
    assert not found[np.broadcast_to(far, found.shape)].any()
    assert 4 <= (found == CYCLONE).sum() <= 25  # a cap of 5 degrees at 45 degrees has 14 pixels


@pytest.mark.parametrize(("lat", "spin"), [(45.0, -2 * SPIN), (45.0, 0.3 * SPIN), (5.0, 2 * SPIN), (82.0, 2 * SPIN)])
def test_what_spins_the_other_way_or_hardly_or_in_the_tropics_is_none(lat: float, spin: float) -> None:
    assert not classes(*low(lat, 120, spin), np.zeros((ROWS, COLUMNS))).any()


def test_a_long_narrow_flux_to_the_pole_is_a_river() -> None:
    flux = band(25, 55, 100, 110)  # 3300 km by 700 km
    assert np.array_equal(classes(*STILL, flux) == RIVER, flux > 0)
    assert np.array_equal(classes(*STILL, -flux[::-1]) == RIVER, flux[::-1] > 0), "to the south in the south"
    across = band(25, 55, 355, 5)
    assert np.array_equal(classes(*STILL, across) == RIVER, across > 0), "also where longitudes begin"


@pytest.mark.parametrize(
    "flux", [band(35, 45, 100, 110), band(25, 55, 100, 150), -band(25, 55, 100, 110), band(25, 55, 100, 110, FLUX / 2)]
)
def test_what_is_short_or_wide_or_flows_to_the_equator_or_is_weak_is_none(flux: np.ndarray) -> None:
    assert not classes(*STILL, flux).any()


@pytest.fixture(scope="module")
def storm() -> tuple[MoistFlow, torch.Tensor]:
    """Day 6 of two fast jets: it has both classes."""
    flow = MoistFlow(Conditions((88.0, 80.0), (42.0, 44.0), source_days=2.0, days=6.0))
    state = flow.begin(3)
    for _ in range(6 * 48):
        state = flow.step(state)
    return flow, state


@pytest.mark.slow
def test_the_rule_does_not_know_where_longitudes_begin_nor_which_pole_is_which(
    storm: tuple[MoistFlow, torch.Tensor],
) -> None:
    fields = channels(*storm)
    mask = ruled(fields)
    assert set(np.unique(mask)) == {0, CYCLONE, RIVER}
    for columns in (1, 40, 127):
        assert np.array_equal(ruled(np.roll(fields, columns, axis=2)), np.roll(mask, columns, axis=1))
    signs = np.array([1, 1, -1, -1, 1, 1, -1])[:, None, None]  # north is south: v, vorticity and flux change sign
    assert np.array_equal(ruled((signs * fields)[:, ::-1]), mask[::-1])


def test_an_observation_has_errors_of_their_size_and_no_shorter_waves(storm: tuple[MoistFlow, torch.Tensor]) -> None:
    flow, state = storm
    seen_state = blurred(flow, state, np.random.default_rng(0))
    short = flow.sphere.degree > SEEN
    assert not seen_state[torch.as_tensor(short)].any()
    kept = state * flow.sphere.coefficients(~short)
    spread = flow.sphere.synthesis(seen_state - kept).numpy().std((1, 2))
    np.testing.assert_allclose(spread, ERRORS, rtol=0.15)
    many = (blurred(flow, state, np.random.default_rng(seed)) - kept for seed in range(60))
    by_latitude = np.sqrt(np.square([flow.sphere.synthesis(each)[2].numpy() for each in many]).mean((0, 2)))
    np.testing.assert_allclose(by_latitude, ERRORS[2], rtol=0.15)
    assert ERRORS[2] == pytest.approx(20 * GRAVITY)


def test_a_network_sees_numbers_near_1_of_the_channels_that_were_chosen(storm: tuple[MoistFlow, torch.Tensor]) -> None:
    fields = channels(*storm)[None]
    everything, indirect = seen(fields), seen(fields, "indirect")
    assert everything.shape == (1, len(CHANNELS), ROWS, COLUMNS)
    assert 0.05 < everything.std((0, 2, 3)).min() < everything.std((0, 2, 3)).max() < 3
    places = [list(CHANNELS).index(name) for name in CHOICES["indirect"]]
    assert np.array_equal(indirect, everything[:, places])
    assert not {"height", "vorticity", "flux"} & set(CHOICES["indirect"])
    with pytest.raises(UnknownName):
        seen(fields, "some")
