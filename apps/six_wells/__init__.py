"""A particle on a torus with six wells: a landscape whose truth is known exactly, to measure steering by."""

from steersman.apps.six_wells.landscape import (
    CELLS,
    CENTRES,
    RADIUS,
    cells,
    energy,
    force,
    grid_cells,
    reachable,
    wells,
)
from steersman.apps.six_wells.simulation import VARIABLES, run

__all__ = [
    "CELLS",
    "CENTRES",
    "RADIUS",
    "VARIABLES",
    "cells",
    "energy",
    "force",
    "grid_cells",
    "reachable",
    "run",
    "wells",
]
