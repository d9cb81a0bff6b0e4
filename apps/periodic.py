"""Vectors between atoms in a periodic box -> the shortest ones to any of their images."""

from __future__ import annotations

import numpy as np


def nearest_image(apart_N3: np.ndarray, box_33: np.ndarray) -> np.ndarray:
    """Bring each vector to the nearest image.

    Args:
        apart_N3: (..., 3) float, nm.
        box_33: (3, 3) float, nm; vectors of a box as OpenMM and GROMACS have them, (x, 0, 0), (x, y, 0), (x, y, z).
    Returns: (..., 3) float64; the shortest image where that is shorter than half of the box.
    """
    apart_N3 = np.array(apart_N3, np.float64)
    for axis in (2, 1, 0):
        apart_N3 -= np.round(apart_N3[..., axis, None] / box_33[axis, axis]) * box_33[axis]
    return apart_N3
