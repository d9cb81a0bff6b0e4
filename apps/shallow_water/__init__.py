"""Shallow water on the rotating sphere."""

from steersman.apps.shallow_water.solver import (
    STEPS,
    VARIABLES,
    Frame,
    ShallowWater,
    default_step,
    largest_step,
    rows_for_networks,
    run,
    run_members,
    stationary,
)

__all__ = [
    "STEPS",
    "VARIABLES",
    "Frame",
    "ShallowWater",
    "default_step",
    "largest_step",
    "rows_for_networks",
    "run",
    "run_members",
    "stationary",
]
