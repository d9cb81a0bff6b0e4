"""Crops of density, what their spectra say, and a model that says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.apps.cosmology import (
    CROPS,
    DIMENSIONS,
    NULL_ERROR,
    Universe,
    crops,
    errors_of_summary,
    judgement,
    physical,
    summary,
    targets,
)
from steersman.apps.cosmology.universe import MIDDLE, WIDTH
from steersman.steering import latin_hypercube
from steersman.system.errors import BadValue


def test_crops_are_the_cube_cut_into_pieces() -> None:
    cube = np.arange(2 * 3 * 16**3, dtype=np.float16).reshape(2, 3, 16, 16, 16)
    parts = crops(cube)
    assert parts.shape == (16, 3, 8, 8, 8)
    assert parts.dtype == cube.dtype
    assert np.array_equal(parts[0], cube[0, :, :8, :8, :8])
    assert np.array_equal(parts[8 + 1], cube[1, :, :8, :8, 8:])
    assert np.array_equal(parts[8 + 6], cube[1, :, 8:, 8:, :8])


def test_a_wave_has_its_power_in_its_band_and_its_variance() -> None:
    x = np.arange(32)
    cubes = np.stack([1 + 0.1 * np.cos(2 * np.pi * x * waves / 32) for waves in (1, 5)])
    noise = 1e-4 * np.random.default_rng(0).standard_normal((2, 1, 32, 32, 32))
    found = summary(cubes[:, None, :, None, None] + noise)
    assert found.shape == (2, 9)
    assert np.exp(found[:, 0]) == pytest.approx(0.1**2 / 2, rel=1e-3)
    assert found[0, 1:].argmax() == 0
    assert found[1, 1:].argmax() == 4  # from 4 to 5.66 waves


def test_white_noise_has_as_much_power_in_all_bands() -> None:
    noise = np.random.default_rng(1).standard_normal((40, 1, 32, 32, 32))
    assert np.exp(summary(noise)).mean(0) == pytest.approx(1, abs=0.15)


def test_who_always_says_the_middle_errs_by_a_quarter_of_each_range() -> None:
    points = latin_hypercube(2000, DIMENSIONS)
    assert np.abs(targets(points)).mean(0) == pytest.approx(NULL_ERROR, abs=1e-3)
    found = np.array([list(vars(Universe.of(point)).values()) for point in points])
    assert np.abs(found - MIDDLE).mean(0) == pytest.approx(WIDTH / 4, rel=1e-2)


def test_the_regressor_finds_a_law_and_judges_by_what_is_held_out() -> None:
    rng = np.random.default_rng(2)
    points, law = rng.random((60, DIMENSIONS)), rng.standard_normal((DIMENSIONS, 5))
    summaries = (points @ law)[:, None] + 0.01 * rng.standard_normal((60, CROPS, 5))
    held_out = np.arange(60) < 20
    points[held_out] = 1 - points[held_out]  # what it says of these is wrong, and is not learned
    errors = errors_of_summary({"summary": summaries, "point": points}, held_out)
    assert errors.shape == (20 * CROPS, DIMENSIONS)
    assert errors == pytest.approx(2 * targets(1 - points[held_out]).repeat(CROPS, axis=0), abs=0.2)


def test_a_committee_is_judged_by_universe() -> None:
    points = np.array([[0.5, 0.5, 0.5], [1.0, 0.0, 0.5]])
    said = np.zeros((2 * CROPS, 4, DIMENSIONS))
    said[CROPS:, :2, 0] = 1.0  # two of four members are right about Omega_M
    scores = judgement(said, points)
    assert scores["found"].shape == (2, CROPS, DIMENSIONS)
    assert scores["error"] == pytest.approx([0, (0.5 + 1) / 3])
    assert scores["spread"] == pytest.approx([0, 0.5 / 3])


@given(st.lists(st.floats(0, 1), min_size=DIMENSIONS, max_size=DIMENSIONS))
def test_every_point_of_the_cube_is_a_universe_and_can_be_told_from_it(point: list[float]) -> None:
    universe = Universe.of(point)
    assert physical(targets(np.array(point))) == pytest.approx([universe.omega_m, universe.sigma_8, universe.n_s])


@pytest.mark.parametrize("point", [[0.5] * 2, [0.5, 0.5, 1.5], [float("nan")] * 3])
def test_a_point_outside_the_cube_is_refused(point: list[float]) -> None:
    with pytest.raises(BadValue):
        Universe.of(point)
