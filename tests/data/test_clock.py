"""How far a run had come at a moment, and the units in which that is shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.data.clock import Clock, simulated_scale, wall_scale


def test_the_clock_leaves_out_the_time_between_sessions() -> None:
    began, ended = np.array([100.0, 501.0]), np.array([105.0, 505.0])
    clock = Clock([(100.0, 100.0), (500.0, 110.0)], began, ended, np.array([2.0, 2.0]), "ps")
    assert clock.elapsed([100.0, 110.0, 500.0, 505.0]) == pytest.approx([0, 10, 10, 15])
    assert clock.simulated([100.0, 105.0, 500.0, 501.0, 503.0, 505.0]) == pytest.approx([0, 2, 2, 2, 3, 4])


SEGMENTS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1e6)), min_size=1, max_size=20)


@given(SEGMENTS, st.lists(st.floats(0, 250), min_size=1))
def test_simulated_time_is_the_sum_of_what_each_segment_has_simulated_by_then(
    segments: list[tuple[float, float, float]], moments: list[float]
) -> None:
    """Nothing is simulated while no segment runs."""
    began, took, simulated = np.array(segments).T
    took = np.maximum(took, 1e-3)
    clock = Clock([(0.0, 0.0)], began, began + took, simulated, "ps")
    share = np.clip((np.array(moments)[:, None] - began) / took, 0, 1)
    np.testing.assert_allclose(clock.simulated(moments), share @ simulated, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize(
    ("longest", "unit", "shown"),
    [(400, "ps", "ps"), (5e5, "ps", "ns"), (3.0, "s", "s"), (7.0, "days", "days"), (7.0, "1", ""), (0.0, "ps", "ps")],
)
def test_times_are_shown_in_a_unit_that_reads_well(longest: float, unit: str, shown: str) -> None:
    assert simulated_scale(longest, unit).unit == shown


def test_runs_side_by_side_are_compared_by_the_size_of_their_units() -> None:
    """A page draws several runs along one axis, each with a unit of its own."""
    sizes = [simulated_scale(longest, "ps").size for longest in (400.0, 5e5)]
    assert sizes[0][0] == sizes[1][0]
    assert sizes[1][1] / sizes[0][1] == 1000
    assert simulated_scale(7.0, "days").size == ("days", 1.0)


def test_wall_time_is_shown_in_seconds_minutes_or_hours() -> None:
    assert [wall_scale(seconds).unit for seconds in (80, 5000, 90_000)] == ["s", "min", "h"]
