"""Laws of diffraction: electrons are kept, the crystal's symmetry is the pattern's, PRISM agrees with multislice."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.apps.diffraction import (
    CLASSES,
    COLUMNS,
    DIMENSIONS,
    ROWS,
    Conditions,
    class_name,
    counts,
    intensity,
    seen,
)
from steersman.apps.diffraction.conditions import SEMIANGLE_MRAD
from steersman.apps.diffraction.crystals import CRYSTAL
from steersman.apps.diffraction.simulation import ACROSS_A, ENERGY_EV, exit_intensity, unit_potential
from steersman.steering import latin_hypercube
from steersman.system.errors import BadValue

pytestmark = pytest.mark.slow  # abTEM compiles for most of it


def angles(pattern: np.ndarray, sampling: tuple[float, float]) -> np.ndarray:
    """Scattering angle of each pixel, mrad."""
    axes = [(np.arange(n) - n // 2) * step for n, step in zip(pattern.shape, sampling, strict=True)]
    return np.asarray(np.hypot(*np.meshgrid(*axes, indexing="ij")))


@pytest.mark.parametrize("crystal", ["Si", "Au", "Fe"])
def test_without_a_crystal_the_pattern_is_the_probe_s_disc(crystal: str) -> None:
    """All electrons are within the semi-angle, evenly, but for the pixels on its edge."""
    pattern, sampling = exit_intensity(Conditions(crystal, 0.0, defocus_A=50.0))
    angle = angles(pattern, sampling)
    assert pattern.sum() == pytest.approx(1, abs=1e-5)
    inside = pattern[angle < SEMIANGLE_MRAD - max(sampling)]
    assert np.ptp(inside) < 1e-5 * inside.mean()
    assert pattern[angle > SEMIANGLE_MRAD + max(sampling)].max() < 1e-9


@pytest.mark.parametrize("crystal", ["Au", "Fe"])
def test_a_crystal_with_a_fourfold_axis_has_a_fourfold_pattern(crystal: str) -> None:
    pattern, _ = exit_intensity(Conditions(crystal, 60.0))
    assert np.abs(pattern - np.rot90(pattern)).max() < 1e-4 * pattern.max()
    tilted, _ = exit_intensity(Conditions(crystal, 60.0, tilt_mrad=10.0))
    assert np.abs(tilted - np.rot90(tilted)).max() > 0.1 * tilted.max()
    assert np.abs(tilted - tilted[:, ::-1]).max() < 1e-4 * tilted.max()  # the other axis is still a mirror


@pytest.mark.parametrize(("crystal", "scattered"), [("Si", 0.1), ("Fe", 0.3), ("Au", 0.4)])
def test_electrons_are_lost_to_high_angles_only_and_more_by_a_thicker_crystal(crystal: str, scattered: float) -> None:
    kept = [exit_intensity(Conditions(crystal, thickness))[0].sum() for thickness in (0.0, 30.0, 120.0)]
    assert 1 + 1e-5 > kept[0] > kept[1] > kept[2] > 1 - scattered


@pytest.mark.parametrize("crystal", ["Si", "Au"])
def test_the_probe_may_stand_on_any_of_equivalent_atoms(crystal: str) -> None:
    """Half a cell along both axes is a translation of the lattice; atoms between two grid points would be smeared."""
    half = CRYSTAL[crystal][1] / 2
    first, second = (intensity(Conditions(crystal, 90.0, position_A=at)) for at in ((0.0, 0.0), (half, half)))
    assert np.abs(first - second).sum() < 1e-4


def test_prism_agrees_with_multislice() -> None:
    """Another algorithm of abTEM, plane wave by plane wave; without interpolation it is exact."""
    import abtem

    unit = unit_potential(Conditions("Fe", 0.0))
    edge = unit.extent[0]
    across = math.ceil(ACROSS_A / edge)
    ours, sampling = exit_intensity(Conditions("Fe", 8 * edge))
    potential = abtem.CrystalPotential(unit, (across, across, 8))
    waves = abtem.SMatrix(semiangle_cutoff=SEMIANGLE_MRAD, energy=ENERGY_EV, potential=potential, downsample=False)
    built = waves.build(lazy=False).reduce(scan=abtem.CustomScan([(0.0, 0.0)]))
    theirs = np.asarray(built.diffraction_patterns(max_angle="cutoff").array).squeeze()
    assert theirs.shape == ours.shape
    edge = np.abs(angles(ours, sampling) - SEMIANGLE_MRAD) < max(sampling)  # a soft edge here, a hard one there
    assert np.abs(theirs - ours)[~edge].sum() < 0.1


def test_all_crystals_are_seen_at_the_same_angles() -> None:
    """A disc of 8 mrad has as many pixels of 1 mrad, whatever grid the crystal was simulated on."""
    for crystal in ("Si", "Au", "Fe"):
        pattern = intensity(Conditions(crystal, 0.0))
        assert pattern.shape == (ROWS, COLUMNS)
        assert pattern.sum() == pytest.approx(1, abs=2e-3)
        bright = (pattern > pattern.max() / 2).sum()
        assert bright == pytest.approx(np.pi * SEMIANGLE_MRAD**2, rel=0.08)


def test_electrons_are_counted_one_by_one() -> None:
    """Their mean is the dose, their variance their mean; the same seed counts the same."""
    conditions = Conditions("Fe", 20.0, dose=1e5)
    expected = 1e5 * intensity(conditions)
    found = np.stack([counts(conditions, seed) for seed in range(20)])
    assert found.dtype == np.uint32
    bright = expected > 5
    assert ((found - expected) ** 2)[:, bright].mean() / expected[bright].mean() == pytest.approx(1, abs=0.1)
    assert np.array_equal(found[3], counts(conditions, 3))


def test_what_a_network_sees_does_not_tell_the_dose() -> None:
    patterns = np.stack([1e4 * intensity(Conditions("Au", 40.0)), 1e6 * intensity(Conditions("Au", 40.0))])
    first, second = seen(patterns)
    assert np.allclose(first, second, atol=1e-5)
    assert np.array_equal(seen(patterns[None]), np.stack([first, second], 1))  # two channels of one crystal
    assert np.isfinite(seen(np.zeros((1, ROWS, COLUMNS), np.uint32))).all()


@given(st.lists(st.floats(0, 1), min_size=DIMENSIONS, max_size=DIMENSIONS))
def test_every_point_of_the_cube_has_conditions_and_a_class(point: list[float]) -> None:
    conditions = Conditions.of(point)
    assert 0 <= conditions.label < CLASSES
    assert class_name(conditions.label).startswith(conditions.crystal)


def test_draws_fill_all_classes_evenly() -> None:
    labels = [Conditions.of(point).label for point in latin_hypercube(5400, DIMENSIONS)]
    found = np.bincount(labels, minlength=CLASSES)
    assert np.abs(found - 200).max() < 5 * np.sqrt(200)


@pytest.mark.parametrize("point", [[0.5] * 5, [0.5] * 5 + [1.5], [float("nan")] * 6])
def test_a_point_outside_the_cube_is_refused(point: list[float]) -> None:
    with pytest.raises(BadValue):
        Conditions.of(point)


@pytest.mark.parametrize("wrong", [Conditions("Xx", 50.0), Conditions("Si", -1.0), Conditions("Si", 1e4)])
def test_conditions_that_cannot_be_simulated_are_refused(wrong: Conditions) -> None:
    with pytest.raises(BadValue):
        intensity(wrong)
