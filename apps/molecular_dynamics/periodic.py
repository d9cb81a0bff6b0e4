"""Vectors between atoms in a periodic box -> the shortest ones to any of their images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import openmm
from openmm import app, unit


def box_nm(vectors: Iterable[Any]) -> np.ndarray:
    """(3, 3) float64, nm, of OpenMM's box vectors."""
    return np.array([vector.value_in_unit(unit.nanometer) for vector in vectors])


def set_box(topology: app.Topology, box_33: np.ndarray | None) -> None:
    """Give a topology these vectors, nm, or none."""
    vectors = None if box_33 is None else [openmm.Vec3(*map(float, vector)) for vector in box_33] * unit.nanometer
    topology.setPeriodicBoxVectors(vectors)


def nearest_image(apart_N3: np.ndarray, box_33: np.ndarray) -> np.ndarray:
    """Bring each vector to the nearest image.

    Args:
        apart_N3: (..., 3) float, nm.
        box_33: (3, 3) float, nm; vectors of a box as OpenMM has them, (x, 0, 0), (x, y, 0), (x, y, z).
    Returns: (..., 3) float64; the shortest image where that is shorter than half of the box.
    """
    apart_N3 = np.array(apart_N3, np.float64)
    for axis in (2, 1, 0):
        apart_N3 -= np.round(apart_N3[..., axis, None] / box_33[axis, axis]) * box_33[axis]
    return apart_N3
