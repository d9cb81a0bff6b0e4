"""What `bench peers` computes from the spans of tasks."""

import pytest

from steersman.benchmarks.peers import figures


def test_a_workers_gaps_are_those_between_its_own_tasks_in_their_order() -> None:
    one = [(1, 0.010, 0.020), (1, 0.024, 0.034), (1, 0.036, 0.046)]
    other = [(2, 0.000, 0.050)]
    found = figures([one[2], *other, one[0], one[1]])
    assert found["refill_p50_ms"] == pytest.approx(3)
    assert found["ms_per_task"] == pytest.approx(12.5)
