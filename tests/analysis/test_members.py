"""The weights of an ensemble that still runs: of whole rounds alone."""

import numpy as np
import pytest

from steersman.analysis.trajectories import in_order
from steersman.steering import Scores
from steersman.steering.weighted_ensemble import averages


def test_frames_without_a_score_and_rounds_that_are_not_whole_weigh_nothing() -> None:
    """Two members of two frames a round, of weights 0.75 and 0.25; of round 3 the lighter one is not scored."""
    walker, row = np.repeat([0, 1], 6), np.tile(np.arange(6), 2)
    weight, number = np.where(walker == 0, 0.75, 0.25), row // 2 + 1
    scored = (walker == 0) | (number < 3)
    everything = {"x": np.where(walker == 0, 1.0, 0.0)}
    scores = Scores(
        walker[scored], row[scored], row[scored] // 2, np.zeros(10, int), row[scored] % 2 == 1,
        {"x": everything["x"][scored]}, weight=weight[scored], round=number[scored],
    )  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(12)
    found = in_order(scores, walker[shuffled], row[shuffled])
    whole = number[shuffled] < 3
    assert found.weight.tolist() == np.where(whole, weight[shuffled], 0).tolist()
    assert found.round.tolist() == np.where(whole, number[shuffled], 0).tolist()
    assert averages(found, everything["x"][shuffled]) == pytest.approx([0.75, 0.75])
