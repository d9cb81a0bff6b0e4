"""A running segment is stopped for what its own newest frames say."""

import numpy as np
import pytest

from steersman.steering import Hopeless, Redundant, Scores


def scores(z: list[float]) -> Scores:
    n = len(z)
    zeros = np.zeros(n, int)
    return Scores(zeros, np.arange(n), zeros, zeros, np.zeros(n, bool), {"z": np.array(z)}, 1)


def test_a_segment_in_crowded_cells_is_redundant() -> None:
    table = scores([0.0] * 100 + [0.01] * 5 + [1.0])
    rule = Redundant("z", patience=5, crowd=50, bins=10)
    assert "redundant" in (rule.reason(table, np.arange(100, 105)) or "")
    assert rule.reason(table, np.arange(100, 104)) is None, "too few frames to judge"
    assert rule.reason(table, np.arange(101, 106)) is None, "its newest frame is somewhere new"
    moves = scores([0.0] * 60 + [0.2, 0.4, 0.6, 0.8, 1.0] + [0.0] * 5)
    assert rule.reason(moves, np.arange(50, 65)) is None, "its newest frames are, whatever came before"
    assert "redundant" in (rule.reason(moves, np.arange(60, 70)) or ""), "it came back"


def test_the_frames_of_a_grid_are_counted_once_however_many_segments_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count a million takes 0.4 s, and the driver judges each running segment after each scoring."""
    counted, cells = [], Scores.cells

    def counting(self: Scores, name: str, bins: int) -> np.ndarray:
        counted.append(bins)
        return cells(self, name, bins)

    monkeypatch.setattr(Scores, "cells", counting)
    table = scores([0.0] * 100)
    for first in range(0, 100, 10):
        Redundant("z").reason(table, np.arange(first, 100))
    assert counted == [20]
    assert (table.crowd("z", 20) == 100).all()
    assert table.crowd("z", 10) is not table.crowd("z", 20)
    assert counted == [20, 10]


@pytest.mark.parametrize(("distance", "hopeless"), [([5, 4, 3, 2, 1], False), ([5, 1, 2, 3, 4], True), ([], False)])
def test_a_segment_without_a_new_minimum_is_hopeless(distance: list[float], hopeless: bool) -> None:
    table = scores([float(d) for d in distance])
    assert bool(Hopeless("z", patience=3).reason(table, np.arange(len(distance)))) == hopeless
