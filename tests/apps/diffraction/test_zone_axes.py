"""Laws of crystals along zone axes: right angles, mirrors, and the same conditions whatever the number of axes."""

import numpy as np
import pytest

from steersman.apps.diffraction import ROWS, Conditions, intensity
from steersman.apps.diffraction.crystals import CRYSTAL, ZONES, cell
from steersman.apps.diffraction.zone_axes import CRYSTALS, DIMENSIONS, counted, label, projections
from steersman.steering import latin_hypercube
from steersman.system.errors import BadValue

pytestmark = pytest.mark.slow  # abTEM compiles for most of it


@pytest.mark.parametrize("zone", ZONES)
def test_a_cell_along_an_axis_holds_as_many_atoms_for_its_volume(zone: str) -> None:
    axes = np.array(ZONES[zone])
    gram = axes @ axes.T
    assert np.array_equal(gram, np.diag(np.diag(gram)))
    assert np.linalg.det(axes) > 0
    for crystal in CRYSTAL:
        turned, plain = cell(crystal, zone), cell(crystal)
        assert len(turned) / turned.get_volume() == pytest.approx(len(plain) / plain.get_volume())
        assert np.abs(turned.positions).sum(1).min() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("zone", "mirrors"), [("001", (0, 1)), ("011", (0, 1)), ("111", (0,))])
def test_mirrors_of_the_crystal_are_those_of_the_pattern(zone: str, mirrors: tuple[int, ...]) -> None:
    """Of Al, an fcc crystal: [001] and [011] have two, [111] has one along the rows, and none along the columns."""
    pattern = intensity(Conditions("Al", 60.0, zone=zone))
    for axis in (0, 1):
        differs = np.abs(pattern - np.flip(pattern, axis)).max() / pattern.max()
        assert differs < 1e-4 if axis in mirrors else differs > 1e-3


def test_more_axes_leave_the_first_as_they_are() -> None:
    point = [0.4] * DIMENSIONS
    three = counted(point, 3, seed=5)
    assert three.shape[:2] == (3, ROWS)
    assert np.array_equal(counted(point, 1, seed=5), three[:1])
    assert [each.zone for each in projections(point)] == list(ZONES)
    assert len({(each.crystal, each.thickness_A, each.strain, each.dose) for each in projections(point)}) == 1


def test_every_crystal_is_drawn_alike_often() -> None:
    labels = [label(point) for point in latin_hypercube(3 * len(CRYSTALS), DIMENSIONS)]
    assert np.bincount(labels).tolist() == [3] * len(CRYSTALS)
    with pytest.raises(BadValue):
        projections([0.5] * (DIMENSIONS + 1))
