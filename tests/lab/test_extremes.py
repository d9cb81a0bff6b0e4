"""What splitting is worth: outcomes of windows, ancestors of members, and the summary of replicas."""

import numpy as np
import pytest

from lab import extremes
from steersman.apps import shallow_water as sw


def test_the_outcome_is_the_root_of_the_mean_square_of_the_last_days() -> None:
    values = np.arange(24.0).reshape(6, 2, 2)
    found = extremes.outcomes(values)
    assert found.shape == (4, 4)
    assert found[1, 3] == pytest.approx(np.sqrt((7 + 11 + 15) / 3))


def test_boxes_are_those_of_the_application() -> None:
    v = np.random.default_rng(1).normal(size=(3, 24, 48))
    np.testing.assert_allclose(extremes.boxes(v)[:, 0], sw.box(v**2, (30, 60), (0, 45)))
    np.testing.assert_allclose(extremes.boxes(v)[:, 6], sw.box(v**2, (30, 60), (270, 315)))


def test_ancestors_are_found_through_all_splits_between() -> None:
    window = extremes.Split()
    window.parents = [np.arange(3), np.array([0, 0, 2]), np.array([2, 1, 1])]
    window.outcome = [np.zeros(3)] * 3
    assert window.ancestors(2, 2).tolist() == [0, 1, 2]
    assert window.ancestors(0, 2).tolist() == [2, 0, 0]


def test_a_replica_that_is_as_good_as_plain_sampling_gains_nothing() -> None:
    p, days, rng = 1e-2, 9600, np.random.default_rng(1)
    estimates = rng.binomial(days // extremes.DAYS, p, 4000) / (days // extremes.DAYS)
    common = {"p": p, "score": "bins", "largest_window": 0.1, "largest_member": 0.1, "member_days": days}
    lines = [
        common | {"estimate": float(each), "low": 0.0, "high": 1.0, "cpu_s": 10.0, "trained_s": 5.0}
        for each in estimates
    ]
    (found,) = extremes.summary(lines)
    assert found["gain"] == pytest.approx(1, abs=0.1)
    assert found["gain_with_training"] == pytest.approx(0.5, abs=0.05)
    assert found["mean"] == pytest.approx(1, abs=0.02)
    assert found["covered"] == 1.0
