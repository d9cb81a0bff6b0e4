"""A point of the unit cube -> the conditions under which a pattern is taken, and the class that a network is to name.

The 27 classes are 3 crystals x 3 thicknesses x 3 tilts. They fill the cube: there are no gaps between them, so there
are borders on which no network can be sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steersman.apps.points import checked, scaled

CRYSTALS = ("Si", "Au", "Fe")
THICKNESS_A, TILT_MRAD, DEFOCUS_A, ASTIGMATISM_A = (30.0, 120.0), (0.0, 15.0), (-100.0, 100.0), (0.0, 50.0)
SEMIANGLE_MRAD = 8.0  # with it discs overlap; without overlap a pattern does not tell where the probe stands
LOG_DOSE = (4.0, 6.0)  # decimal logarithm of the electrons in a pattern
BINS = 3  # of thickness and of tilt
DIMENSIONS = 6
CLASSES = len(CRYSTALS) * BINS**2
_BELOW_1 = 1 - 1e-9


@dataclass(frozen=True)
class Conditions:
    """What a pattern is taken of, and how.

    Args:
        crystal: one of `crystals.CRYSTAL`.
        thickness_A: of the crystal, angstrom; simulated to the nearest whole unit cell.
        tilt_mrad: of the crystal about its second axis, mrad.
        defocus_A, astigmatism_A: aberrations of the probe, angstrom.
        dose: electrons in a pattern, those at all angles.
        zone: axis of the crystal along the beam, "001", "011" or "111".
        strain: of the crystal along the pattern's rows and columns and the beam, relative.
        position_A: of the probe, from an atom, along rows and columns, angstrom.
        semiangle_mrad: of the probe, mrad.
    """

    crystal: str
    thickness_A: float
    tilt_mrad: float = 0.0
    defocus_A: float = 0.0
    astigmatism_A: float = 0.0
    dose: float = 1e5
    zone: str = "001"
    strain: tuple[float, float, float] = (0.0, 0.0, 0.0)
    position_A: tuple[float, float] = (0.0, 0.0)
    semiangle_mrad: float = SEMIANGLE_MRAD

    @classmethod
    def of(cls, point: Sequence[float]) -> Conditions:
        """Take conditions from a point (6,) from 0 to 1.

        Its numbers are crystal, thickness, tilt, defocus, astigmatism and logarithm of the dose.

        Raises: BadValue: another number of parameters, or one outside 0 to 1.
        """
        crystal, *others = checked(point, DIMENSIONS)
        ranges = (THICKNESS_A, TILT_MRAD, DEFOCUS_A, ASTIGMATISM_A, LOG_DOSE)
        thickness, tilt, defocus, astigmatism, log_dose = scaled(others, ranges)
        return cls(CRYSTALS[bin_of(crystal, len(CRYSTALS))], thickness, tilt, defocus, astigmatism, 10.0**log_dose)

    @property
    def label(self) -> int:
        """The class, 0 to 26."""
        thickness, tilt = (
            bin_of((value - low) / (high - low), BINS)
            for value, (low, high) in ((self.thickness_A, THICKNESS_A), (self.tilt_mrad, TILT_MRAD))
        )
        return (CRYSTALS.index(self.crystal) * BINS + thickness) * BINS + tilt


def class_name(label: int) -> str:
    """A class in words, e.g. "Au, 60 to 90 A, 5 to 10 mrad"."""
    crystal, rest = divmod(label, BINS**2)
    ranges = []
    for number, (low, high) in zip(divmod(rest, BINS), (THICKNESS_A, TILT_MRAD), strict=True):
        step = (high - low) / BINS
        ranges.append(f"{low + number * step:g} to {low + (number + 1) * step:g}")
    return f"{CRYSTALS[crystal]}, {ranges[0]} A, {ranges[1]} mrad"


def bin_of(share: float, bins: int) -> int:
    """Give the number of the bin, from 0, in which a share of 0 to 1 lies."""
    return int(min(max(share, 0.0), _BELOW_1) * bins)
