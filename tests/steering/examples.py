"""A policy of every class that ranks frames, for the laws that all of them keep.

An argument in the unit of a score is 0 here, so that no law has to know it.
"""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np

from steersman import steering
from steersman.steering import (
    Dbscan,
    Diverse,
    ExpectedImprovement,
    Fast,
    Frontier,
    Highest,
    LeastCounts,
    LocalOutlierFactor,
    Novelty,
    Policy,
    Random,
    Reap,
    Scores,
    Target,
    Unsteered,
)
from steersman.steering.merit import ByMerit

NEW_MEMBERS = {"Ask", "Importance", "LatinHypercube", "Unsure", "WeightedEnsemble"}  # what they choose are no frames
POLICIES: list[Policy] = [
    Dbscan("z"), Diverse(Highest("x"), "z"), ExpectedImprovement("x", "deviation"), Fast("x", "z"),
    Frontier(Novelty("z")), Highest("x"), LeastCounts("z", states=5, sample=50), LocalOutlierFactor("z", sample=50),
    Novelty("z"), Novelty("z") | Random(), Random(), Reap("z"), Target("z", (0.0, 0.0)), Unsteered(),
]  # fmt: skip


def values(z: np.ndarray) -> dict[str, np.ndarray]:
    """Scores that these policies need, of points (n, 2)."""
    return {"z": z, "x": z[:, 0], "deviation": np.abs(z[:, 1])}


def table(z: np.ndarray) -> Scores:
    n = len(z)
    return Scores(np.zeros(n, int), np.arange(n), np.arange(n), np.zeros(n, int), np.zeros(n, bool), values(z), 1)


def without_example() -> set[str]:
    """Policies that steering has, and of which there is none here."""
    return {kind.__name__ for kind in kinds()} ^ {type(policy).__name__ for policy in POLICIES} ^ NEW_MEMBERS


def without_a_name() -> set[str]:
    """Policies that nobody can import from `steersman.steering`."""
    return {kind.__name__ for kind in kinds()} - {*dir(steering)}


def kinds() -> set[type[Policy]]:
    """Of the files of steering, but those that others derive from."""
    for file in pkgutil.iter_modules(steering.__path__, f"{steering.__name__}."):
        importlib.import_module(file.name)
    found = {Policy}
    while more := {kind for parent in found for kind in parent.__subclasses__()} - found:
        found |= more
    return {kind for kind in found - {Policy, ByMerit} if kind.__module__.startswith(f"{steering.__name__}.")}
