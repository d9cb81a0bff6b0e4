"""A point of the unit cube -> patterns of one crystal along up to three zone axes, under the same conditions.

Some crystals are nearly alike: Al, Ag and Au, Mo and W, Ge and GaAs have the same lattice but for the kinds of atoms,
and their lattice constants differ by less than strain changes them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steersman.apps.diffraction.conditions import DEFOCUS_A, LOG_DOSE, THICKNESS_A, TILT_MRAD, Conditions, bin_of
from steersman.apps.diffraction.crystals import CRYSTAL, ZONES
from steersman.apps.diffraction.simulation import VARIABLES as PATTERN
from steersman.apps.diffraction.simulation import counts
from steersman.apps.points import checked, scaled
from steersman.store import Variable

CRYSTALS = tuple(CRYSTAL)
STRAIN = (-0.02, 0.02)  # the same in all directions
DIMENSIONS = 6

VARIABLES = {
    "pattern": Variable(("projection", "angle_x", "angle_y"), "electron", "electrons in a pixel of 1 mrad"),
    "label": PATTERN["label"],
    "point": Variable(("parameter",), "1", "crystal, strain, thickness, tilt, defocus, dose, from 0 to 1"),
}


def label(point: Sequence[float]) -> int:
    """Which of CRYSTALS a point (6,) stands for."""
    return bin_of(point[0], len(CRYSTALS))


def projections(point: Sequence[float], number: int = 3) -> list[Conditions]:
    """Take the conditions of the first zone axes, [001], [011] and [111], from a point (6,) from 0 to 1.

    Its numbers are crystal, strain, thickness, tilt, defocus and logarithm of the dose, which each pattern gets.

    Raises: BadValue: another number of parameters, or one outside 0 to 1.
    """
    _, *others = checked(point, DIMENSIONS)
    strain, thickness, tilt, defocus, log_dose = scaled(others, (STRAIN, THICKNESS_A, TILT_MRAD, DEFOCUS_A, LOG_DOSE))
    return [
        Conditions(CRYSTALS[label(point)], thickness, tilt, defocus, 0.0, 10.0**log_dose, zone, (strain,) * 3)
        for zone in list(ZONES)[:number]
    ]


def counted(point: Sequence[float], number: int, seed: int) -> np.ndarray:
    """Count the patterns along so many zone axes, (number, 120, 85) uint32 electrons; see `simulation.counts`.

    More axes leave the first ones as they are.
    """
    each = enumerate(projections(point, number))
    return np.stack([counts(conditions, len(ZONES) * seed + zone) for zone, conditions in each])
