"""Cyclones and moist rivers in shallow water, marked by a rule and by networks."""

from steersman.apps.storms.flow import DIMENSIONS, Conditions, MoistFlow
from steersman.apps.storms.learning import fitted, judged, pooled
from steersman.apps.storms.rule import CLASSES
from steersman.apps.storms.simulation import CHANNELS, VARIABLES, ruled, run, seen

__all__ = [
    "CHANNELS",
    "CLASSES",
    "DIMENSIONS",
    "VARIABLES",
    "Conditions",
    "MoistFlow",
    "fitted",
    "judged",
    "pooled",
    "ruled",
    "run",
    "seen",
]
