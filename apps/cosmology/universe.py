"""A point of the unit cube -> the parameters of a universe, which a network is to find again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steersman.apps.points import checked

NAMES = ("Omega_M", "sigma_8", "n_s")
DIMENSIONS = len(NAMES)
MIDDLE = np.array([0.3089, 0.8159, 0.9667])  # Planck 2015
WIDTH = 0.6 * MIDDLE  # 30 % to both sides, as in the data set of CosmoFlow


@dataclass(frozen=True)
class Universe:
    """A flat universe with a cosmological constant; baryons (0.049) and h (0.6774) are those of Planck 2015.

    Args:
        omega_m: density of matter over the critical density, today.
        sigma_8: standard deviation of the linear density contrast in spheres of 8 Mpc/h, today.
        n_s: spectral index of the first fluctuations.
    """

    omega_m: float = float(MIDDLE[0])
    sigma_8: float = float(MIDDLE[1])
    n_s: float = float(MIDDLE[2])

    @classmethod
    def of(cls, point: Sequence[float]) -> Universe:
        """Take the parameters from a point (3,) from 0 to 1; 0.5 is the middle of each range.

        Raises: BadValue: another number of parameters, or one outside 0 to 1.
        """
        return cls(*(MIDDLE + (np.array(checked(point, DIMENSIONS)) - 0.5) * WIDTH).tolist())


def targets(points: np.ndarray) -> np.ndarray:
    """Points (..., 3) from 0 to 1 -> what a network is to find, from -1 to 1."""
    return np.asarray(2 * points - 1)


def physical(targets: np.ndarray) -> np.ndarray:
    """What a network found (..., 3) -> Omega_M, sigma_8 and n_s."""
    return np.asarray(MIDDLE + 0.5 * targets * WIDTH)
