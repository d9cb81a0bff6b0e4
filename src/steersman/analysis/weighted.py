"""A weighted ensemble -> what its weights say: populations and a mean first passage time, without states and lag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.steering import Scores
from steersman.steering.weighted_ensemble import arrivals, averages, mean_of_rounds, passage


def weighted(members: Scores, labels: Mapping[str, np.ndarray], target: str, round_time: float) -> dict[str, Any]:
    """Populations of labels (n,), and the passage time to the target in simulated time, each with its 95 % interval.

    Args:
        target: score of the policy that is true where a member has arrived; "": none.
        round_time: simulated time of a round.
    Raises: ValueError: too few rounds.
    """
    found: dict[str, Any] = {"rounds": int(members.round.max()), "populations": {}}
    for name, label in labels.items():
        shares = {
            str(each): list(mean_of_rounds(averages(members, (label == each).astype(float))))
            for each in np.unique(label[label >= 0])
        }
        found["populations"][name] = shares
    if target:
        there = members.column(target) > 0
        found["passage_time"] = [each * round_time for each in passage(arrivals(members, there))]
    return found
