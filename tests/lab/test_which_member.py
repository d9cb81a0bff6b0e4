"""The choice of members that the benchmark compares with random ones."""

from __future__ import annotations

import numpy as np

from lab.which_member import uncertain_and_diverse


def test_with_equal_spread_the_farthest_is_chosen_first_and_none_twice() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0], [10.0]])
    chosen = uncertain_and_diverse(points, np.ones(5), np.array([[0.1]]), 4, np.random.default_rng(0))
    assert chosen.tolist()[:2] == [4, 2]
    assert len(set(chosen.tolist())) == 4


def test_where_the_networks_agree_nothing_is_chosen() -> None:
    points = np.array([[0.0], [5.0], [10.0]])
    chosen = uncertain_and_diverse(points, np.array([0.0, 1.0, 0.1]), np.array([[0.1]]), 1, np.random.default_rng(0))
    assert chosen.tolist() == [1]
