"""Which frames follow each other in a run that was steered; and which states were seen too seldom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman.analysis.biased import _seldom
from steersman.analysis.trajectories import _pieces, _steps
from steersman.steering.reweighting import FEW_PASSAGES, Reweighted


def pieces(*segments: tuple[int, int, str, int, int]) -> list[list[int]]:
    """Of segments (first row, end row, policy, parent, row of the parent's frame)."""
    first, end, policy, parent, parent_row = (np.array(each) for each in zip(*segments, strict=True))
    columns: Any = {"first": first, "end": end, "policy": policy, "parent": parent, "parent_row": parent_row}
    own = np.flatnonzero(end > first)
    history: Any = SimpleNamespace(segments=SimpleNamespace(**columns))
    return [piece.tolist() for piece in _pieces(history, own, (end - first)[own])]


def test_a_piece_begins_with_the_frame_that_its_segment_started_from() -> None:
    """Rows are those of a walker's group, positions those of the frames one after another: here they differ by 100."""
    assert pieces((100, 104, "prepared", -1, -1), (200, 202, "Novelty", 0, 102), (104, 106, "Novelty", 0, 103)) == [
        [0, 1, 2, 3], [2, 4, 5], [3, 6, 7],
    ]  # fmt: skip


def test_plain_dynamics_is_one_piece_as_long_as_it_is_continued_at_its_end_and_once() -> None:
    plain = (100, 103, "prepared", -1, -1), (200, 203, "Unsteered", 0, 102), (103, 105, "Unsteered", 1, 202)
    assert pieces(*plain) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    again = (300, 302, "Unsteered", 1, 202)
    assert pieces(*plain, again) == [[0, 1, 2, 3, 4, 5, 6, 7], [5, 8, 9]]
    inside = (300, 302, "Unsteered", 1, 201)
    assert pieces(*plain[:2], inside) == [[0, 1, 2, 3, 4, 5], [4, 6, 7]]
    empty, behind = (203, 203, "Unsteered", 1, 202), (203, 205, "Novelty", 2, 203)
    assert pieces(*plain[:2], empty, behind) == [[0, 1, 2, 3, 4, 5], [6, 7]]


def test_the_time_before_the_first_frame_of_a_segment_counts_where_it_goes_on_from_another() -> None:
    """Two segments store three frames each, after 40 ps without any."""
    time = np.array([41.0, 42.0, 43.0, 41.0, 42.0, 43.0])
    assert _steps(time, np.array([3, 3]), np.array([False, True])).tolist() == [1, 1, 41, 1, 1]


@pytest.mark.parametrize("back", [False, True])
def test_a_state_that_walkers_only_left_is_seen_too_seldom(back: bool) -> None:
    """However many left it: what comes back says how much it weighs."""
    paths = [[0, 1] * (FEW_PASSAGES + 1)] if back else [[0, 0, 1, 1]] * (FEW_PASSAGES + 1)
    place, lineage = np.concatenate(paths), np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    weights = Reweighted(np.full(len(place), 1 / len(place)), np.arange(len(place)), lineage)
    run: Any = SimpleNamespace(weights=weights, table=place)
    said = list(_seldom(run, {"A": place == 0, "B": place == 1}))
    assert len(said) == (0 if back else 2)
    assert len(list(_seldom(run, {"A": place == 0}))) == (0 if back else 1), "and all else"
    assert len(list(_seldom(run, {"A": place == 0, "both": place >= 0}))) == (0 if back else 2), "one within the other"
    assert len(list(_seldom(run, {"A": place == 0, "none": place > 5}))) == (1 if back else 2), "none was never entered"
