"""What to do next: pure functions of scores and progress."""

from steersman.steering import audits
from steersman.steering.ask import Ask
from steersman.steering.bias import Bias
from steersman.steering.decide import Choice, Decider, Steering
from steersman.steering.draws import HELD_OUT, LatinHypercube, Unsure, latin_hypercube
from steersman.steering.frontier import Frontier
from steersman.steering.importance import DRAWN, Importance
from steersman.steering.merit import Dbscan, Diverse, ExpectedImprovement, Fast, Highest, Reap
from steersman.steering.opes import Opes
from steersman.steering.policies import LeastCounts, LocalOutlierFactor, Novelty, Random, Target, Unsteered
from steersman.steering.protocols import NEW, Candidate, Policy, Progress, SegmentRule, StopRule, Turns
from steersman.steering.pruning import Hopeless, Redundant
from steersman.steering.scores import Scores
from steersman.steering.stop import SECONDS, budget, plateau, reached
from steersman.steering.weighted_ensemble import WeightedEnsemble, arrivals, averages, mean_of_rounds, passage

__all__ = [
    "DRAWN",
    "HELD_OUT",
    "NEW",
    "SECONDS",
    "Ask",
    "Bias",
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
    "LatinHypercube",
    "LeastCounts",
    "LocalOutlierFactor",
    "Novelty",
    "Opes",
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
    "Unsure",
    "WeightedEnsemble",
    "arrivals",
    "audits",
    "averages",
    "budget",
    "latin_hypercube",
    "mean_of_rounds",
    "passage",
    "plateau",
    "reached",
]
