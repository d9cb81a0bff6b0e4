"""A policy of every class that ranks frames, as its `example` says, for the laws that all of them keep."""

from __future__ import annotations

import numpy as np

from steersman.steering import Novelty, Policy, Random, Scores, Turns
from steersman.steering.expression import parse
from steersman.steering.merit import ByMerit
from steersman.steering.protocols import ByAnother
from steersman.system.registry import subclasses

RANKING = [  # what the others choose are no frames
    kind
    for kind in subclasses("steersman.steering", Policy)
    if kind not in (ByAnother, ByMerit, Turns) and not any(vars(kind).get(what) for what in ("draws", "rounds"))
]
POLICIES = [parse(kind.__name__ + kind.example).policy for kind in RANKING] + [Novelty("z") | Random()]


def values(z: np.ndarray) -> dict[str, np.ndarray]:
    """Scores that these policies need, of points (n, 2)."""
    return {"z": z, "x": z[:, 0], "deviation": np.abs(z[:, 1])}


def table(z: np.ndarray) -> Scores:
    n = len(z)
    return Scores(np.zeros(n, int), np.arange(n), np.arange(n), np.zeros(n, int), np.zeros(n, bool), values(z), 1)
