"""What to do next: pure functions of scores and progress."""

from steersman.steering.decide import Choice, Decider, Steering
from steersman.steering.frontier import Frontier
from steersman.steering.importance import DRAWN, Importance
from steersman.steering.merit import Dbscan, Diverse, ExpectedImprovement, Fast, Highest, Reap
from steersman.steering.policies import (
    NEW,
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
    "DRAWN",
    "NEW",
    "SECONDS",
    "Candidate",
    "Choice",
    "Dbscan",
    "Decider",
    "Diverse",
    "ExpectedImprovement",
    "Fast",
    "Frontier",
    "Highest",
    "Hopeless",
    "Importance",
    "LeastCounts",
    "LocalOutlierFactor",
    "Novelty",
    "Policy",
    "Progress",
    "Random",
    "Reap",
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
