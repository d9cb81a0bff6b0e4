"""What to do next: pure functions of scores and progress."""

from steersman.steering.decide import Choice, Decider, Steering
from steersman.steering.policies import (
    Candidate,
    LeastCounts,
    LocalOutlierFactor,
    Novelty,
    Policy,
    Random,
    Target,
    Turns,
    Unsteered,
)
from steersman.steering.pruning import Hopeless, Redundant, SegmentRule
from steersman.steering.scores import Scores
from steersman.steering.stop import SECONDS, Progress, StopRule, budget, plateau, reached

__all__ = [
    "SECONDS",
    "Candidate",
    "Choice",
    "Decider",
    "Hopeless",
    "LeastCounts",
    "LocalOutlierFactor",
    "Novelty",
    "Policy",
    "Progress",
    "Random",
    "Redundant",
    "Scores",
    "SegmentRule",
    "Steering",
    "StopRule",
    "Target",
    "Turns",
    "Unsteered",
    "budget",
    "plateau",
    "reached",
]
