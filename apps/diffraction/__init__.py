"""Convergent-beam electron diffraction of crystals, by multislice."""

from importlib.util import find_spec

from steersman.system.errors import MissingExtra

if find_spec("abtem") is None:  # to import it takes seconds, which only walkers need to spend
    raise MissingExtra("abtem", "diffraction")

from steersman.apps.diffraction.conditions import CLASSES, DIMENSIONS, Conditions, class_name
from steersman.apps.diffraction.simulation import COLUMNS, ROWS, VARIABLES, counts, intensity, seen

__all__ = [
    "CLASSES",
    "COLUMNS",
    "DIMENSIONS",
    "ROWS",
    "VARIABLES",
    "Conditions",
    "class_name",
    "counts",
    "intensity",
    "seen",
]
