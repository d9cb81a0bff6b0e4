"""Laws of the projected potential, and of what a pattern can say of it."""

import numpy as np
import pytest

from steersman.apps.diffraction import Conditions, intensity, potential
from steersman.apps.diffraction.crystals import CRYSTAL, ZONES, cell
from steersman.apps.diffraction.potential import BLUR_A, CRYSTALS, DIMENSIONS, PIXEL_A, SIZE, conditions, projected
from steersman.apps.diffraction.simulation import unit_potential
from steersman.steering import latin_hypercube
from steersman.system.errors import BadValue

pytestmark = pytest.mark.slow  # abTEM compiles for most of it

FORWARD_A = {"Al": 5.889, "Si": 5.828, "Fe": 7.165, "Au": 10.573}  # f_e(0), Doyle and Turner (1968), table 3
PER_ATOM = 47.878  # V A^2, h^2 / (2 pi m e): an atom's integrated potential over its f_e(0) in A


@pytest.mark.parametrize("crystal", CRYSTALS)
def test_its_mean_is_that_of_the_atoms_forward_scattering(crystal: str) -> None:
    """abTEM has other tables of the atoms, from Lobato and Van Dyck (2014): they agree within 0.2 %."""
    unit = unit_potential(Conditions(crystal, 0.0, strain=(0.02, -0.01, 0.0)))
    atoms, area = len(cell(crystal)), np.prod(unit.extent)
    assert unit.array.sum(0).mean() == pytest.approx(PER_ATOM * FORWARD_A[crystal] * atoms / area, rel=0.005)


@pytest.mark.parametrize("crystal", CRYSTAL)
def test_the_mean_inner_potential_does_not_depend_on_the_zone_axis(crystal: str) -> None:
    units = [unit_potential(Conditions(crystal, 0.0, zone=zone)) for zone in ZONES]
    inner_V = [unit.array.sum(0).mean() / sum(unit.slice_thickness) for unit in units]
    assert inner_V == pytest.approx([inner_V[0]] * len(ZONES), rel=1e-3)


def test_three_cells_have_three_times_the_potential_of_one() -> None:
    import abtem

    unit = unit_potential(Conditions("Au", 0.0))
    whole = np.asarray(abtem.CrystalPotential(unit, (2, 1, 3)).build(lazy=False).array).sum(0)
    assert np.allclose(whole, 3 * np.tile(unit.array.sum(0), (2, 1)), rtol=1e-4)


@pytest.mark.parametrize("crystal", CRYSTALS)
def test_it_repeats_with_the_lattice_and_moves_with_the_probe(crystal: str) -> None:
    strain, at, pixels = (0.03, -0.02, 0.0), (0.7, 1.1), 3
    rows, columns, _ = cell(crystal, strain=strain).cell.lengths()
    here, next_cell, moved = (
        projected(Conditions(crystal, 0.0, strain=strain, position_A=(at[0] + x, at[1] + y)))
        for x, y in ((0, 0), (2 * rows, -columns), (0, pixels * PIXEL_A))
    )
    assert here.shape == (SIZE, SIZE)
    assert np.allclose(here, next_cell, atol=1e-3)
    assert np.allclose(here[:, pixels:], moved[:, :-pixels], atol=1e-3)
    assert np.abs(here - moved).mean() > 5


def test_the_probe_stands_between_the_four_pixels_in_the_middle() -> None:
    """So from an atom it has to go half a pixel for the atom to be in the middle of one."""
    window = projected(Conditions("Si", 0.0, position_A=(PIXEL_A / 2, PIXEL_A / 2)))
    atom = SIZE // 2 - 1
    assert window[atom, atom] == pytest.approx(window.max(), rel=1e-4)
    assert window[atom, atom + 1] == pytest.approx(window[atom, atom - 1], rel=1e-4)
    assert window[atom, atom + round(3 * BLUR_A / PIXEL_A)] < window.max() / 2


def test_a_mirrored_position_mirrors_pattern_and_potential() -> None:
    """So a network may learn from mirrored pairs."""
    here, there = (Conditions("Fe", 30.0, strain=(0.02, 0.0, 0.0), position_A=(x, 0.3)) for x in (0.5, -0.5))
    pattern = intensity(here)
    assert np.abs(pattern[::-1] - intensity(there)).max() < 1e-3 * pattern.max()
    assert np.allclose(projected(here)[::-1], projected(there), atol=1e-3)


def test_a_pattern_tells_where_the_probe_stands_only_if_its_discs_overlap() -> None:
    """The nearest discs of Fe are 8.8 mrad apart, counting those of all Laue zones."""
    differs = {}
    for semiangle_mrad in (8.0, 4.0):
        here, there = (
            intensity(Conditions("Fe", 30.0, position_A=at, semiangle_mrad=semiangle_mrad))
            for at in ((0.0, 0.0), (0.6, 0.9))
        )
        differs[semiangle_mrad] = np.abs(here - there).sum()
    assert differs[8.0] > 0.1
    assert differs[4.0] < 1e-4


def test_points_fill_what_is_drawn() -> None:
    drawn = [conditions(point) for point in latin_hypercube(40, DIMENSIONS)]
    assert {each.crystal for each in drawn} == set(CRYSTALS)
    assert all(-0.03 <= part <= 0.03 for each in drawn for part in each.strain)
    with pytest.raises(BadValue):
        conditions([0.5] * (DIMENSIONS - 1))
    with pytest.raises(BadValue):
        projected(Conditions("Xx", 0.0))


def test_errors_of_mean_know_the_crystal_but_not_the_position() -> None:
    """Two crystals with flat potentials: those held out err by what they differ from the others of their crystal."""
    point = np.zeros((6, DIMENSIONS))
    point[3:, 0] = 0.99
    level = np.array([1.0, 3.0, 5.0, 100.0, 100.0, 107.0])
    values = {"point": point, "potential": np.ones((6, SIZE, SIZE)) * level[:, None, None]}
    held_out = np.array([False, False, True, False, False, True])
    assert potential.errors_of_mean(values, held_out) == pytest.approx([3.0, 7.0])


def test_a_judgement_is_in_volts_times_angstrom() -> None:
    said = np.stack([np.full((1, SIZE, SIZE), 10.0), np.full((1, SIZE, SIZE), 14.0)], 1)
    frames = {"potential": np.full((1, SIZE, SIZE), 9.0), "point": np.zeros((1, DIMENSIONS))}
    found = potential.judgement(said, frames)
    assert found["error"] == pytest.approx([3.0])
    assert found["spread"] == pytest.approx([2.0])
