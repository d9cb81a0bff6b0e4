"""The weights of an ensemble that still runs: of whole rounds alone."""

import numpy as np
import pytest

from steersman.analysis.answer import by_weights
from steersman.analysis.trajectories import Trajectories, in_order
from steersman.steering import Scores, WeightedEnsemble
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


def test_a_passage_takes_simulated_time() -> None:
    """One member of 10 arrives in each of 40 rounds, at the first of its 3 frames: after 10 rounds less two thirds of
    one. A frame takes 0.05."""
    frame = np.arange(1200)
    values = {"there": (frame % 30 == 0).astype(float)}
    members = Scores(
        frame // 3 % 10, frame // 30 * 3 + frame % 3, frame // 30, 0 * frame, frame % 3 == 2, values,
        weight=np.full(1200, 0.1), round=1 + frame // 30,
    )  # fmt: skip
    labels = {"half": (frame % 2).astype(int)}
    found = Trajectories(np.zeros((1200, 1)), labels, [], 0.05, "ns", stopped=0, members=members)
    said = by_weights(found, WeightedEnsemble("x", target="there"))["weighted"]
    assert said["passage_time"] == pytest.approx([(10 - 2 / 3) * 3 * 0.05] * 3)
    assert said["populations"]["half"]["1"] == pytest.approx([0.5] * 3)
    assert by_weights(found, WeightedEnsemble("x"))["weighted"].keys() == {"rounds", "populations"}
