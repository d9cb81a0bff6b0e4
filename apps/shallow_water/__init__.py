"""Shallow water on the rotating sphere."""

from steersman.apps.shallow_water.hybrid import Coarse
from steersman.apps.shallow_water.solver import (
    STEPS,
    VARIABLES,
    Frame,
    ShallowWater,
    box,
    default_step,
    largest_step,
    of_archive,
    rows_for_networks,
    run,
    run_batch,
    run_members,
    solver_of,
    stationary,
)

__all__ = [
    "STEPS",
    "VARIABLES",
    "Coarse",
    "Frame",
    "ShallowWater",
    "box",
    "default_step",
    "largest_step",
    "of_archive",
    "rows_for_networks",
    "run",
    "run_batch",
    "run_members",
    "solver_of",
    "stationary",
]
