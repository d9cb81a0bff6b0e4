"""A periodic box as OpenMM has it <-> vectors in nm."""

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
