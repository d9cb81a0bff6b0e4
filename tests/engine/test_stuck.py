"""Which managers are taken for stuck: those with a worker that is ready and takes nothing, and no others."""

from __future__ import annotations

import math

from steersman.engine.stuck import Stuck

BEGINS_S, STARTS_S = 30.0, 300.0


def first_late(
    stuck: Stuck, held: int, at_work: list[str], *, since: float = 0.0, until: float = 2000.0, slow: float = 1.0
) -> float:
    """The second in which manager m is taken for stuck, looked at each second; inf: it is not."""
    for second in range(int(since), int(until)):
        if stuck.late({"m": held}, {"m": at_work}, float(second), {"m": slow}):
            return float(second)
    return math.inf


def test_a_worker_that_imports_has_the_time_of_its_start_after_each_begin_of_another() -> None:
    """Two workers import for 70 and 200 s: when the first has begun, the second is not late."""
    stuck = Stuck(BEGINS_S, STARTS_S)
    assert first_late(stuck, 2, [], until=70) == math.inf
    stuck.begins("m", "0", 70.0)
    assert first_late(stuck, 2, ["0"], since=70, until=370) == math.inf
    assert first_late(stuck, 2, ["0"], since=370) == 371.0


def test_an_idle_worker_that_has_begun_before_takes_a_job_at_once_or_never() -> None:
    stuck = Stuck(BEGINS_S, STARTS_S)
    stuck.begins("m", "0", 0.0)
    stuck.begins("m", "1", 0.0)
    assert first_late(stuck, 2, ["0"], since=100) == 131.0


def test_a_worker_that_died_in_a_job_is_followed_by_one_that_has_to_start() -> None:
    stuck = Stuck(BEGINS_S, STARTS_S)
    stuck.begins("m", "0", 0.0)
    stuck.dies("m", "0")
    assert first_late(stuck, 1, [], since=100) == 401.0


def test_a_job_of_which_it_is_not_known_which_worker_runs_it_keeps_one_busy() -> None:
    stuck = Stuck(BEGINS_S, STARTS_S)
    stuck.begins("m", "0", 0.0)
    assert first_late(stuck, 2, [""], since=100) == 401.0
    stuck.begins("m", "1", 100.0)
    assert first_late(Stuck(BEGINS_S, STARTS_S), 1, [""]) == math.inf, "it holds no other"


def test_on_a_machine_that_is_busy_all_takes_longer() -> None:
    assert first_late(Stuck(BEGINS_S, STARTS_S), 1, [], slow=3.0) == 901.0


def test_after_a_block_was_ended_it_is_more_patient() -> None:
    stuck = Stuck(BEGINS_S, STARTS_S)
    stuck.be_patient()
    stuck.begins("m", "0", 0.0)
    assert first_late(stuck, 1, []) == 61.0
