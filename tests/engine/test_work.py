"""What becomes of a piece of work: its job begins again, or comes back."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from parsl.executors.high_throughput.errors import WorkerLost

from steersman.engine.work import LATER_S, LOST_S, Work
from steersman.worker.errors import BlockEnds


class Jobs:
    """What was begun, what was noted, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[Future[Any]] = []
        self.notes: list[str] = []

    def submit(self) -> Future[Any]:
        self.begun.append(Future())
        return self.begun[-1]

    def work(self, hang_s: float = 30.0, losses: int = 2) -> Work:
        return Work("it", self.submit, self.notes.append, losses=losses, hang_s=hang_s, clock=lambda: self.now)


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def test_work_that_waits_for_the_next_block_is_noted_once(jobs: Jobs) -> None:
    """It is tried every two seconds, for as long as half an hour."""
    work = jobs.work()
    for tries, left_s in enumerate((60.0, 58.0, 56.0), 1):
        assert work.advance() is None
        assert len(jobs.begun) == tries
        jobs.begun[-1].set_exception(BlockEnds(100.0, left_s))
        assert work.advance() is None
        assert work.advance() is None
        assert len(jobs.begun) == tries, "not before its time"
        jobs.now += LATER_S
    assert len(jobs.notes) == 1


def test_work_that_loses_its_workers_begins_again_so_often_and_then_comes_back(jobs: Jobs) -> None:
    work = jobs.work(losses=2)
    work.advance()
    for lost in range(2):
        jobs.begun[-1].set_exception(WorkerLost(lost, "here"))
        assert work.advance() is None
        work.advance()
    jobs.begun[-1].set_exception(WorkerLost(2, "here"))
    assert work.advance() is jobs.begun[-1]
    assert (len(jobs.begun), len(jobs.notes)) == (3, 2)


def test_work_whose_worker_ended_itself_as_it_hung_comes_back_at_once(jobs: Jobs) -> None:
    work = jobs.work(hang_s=30.0)
    work.advance()
    jobs.now = 31.0
    jobs.begun[-1].set_exception(WorkerLost(0, "here"))
    assert work.advance() is jobs.begun[-1]


def test_a_job_that_never_comes_back_is_given_up_and_begun_again(jobs: Jobs) -> None:
    work = jobs.work(hang_s=30.0)
    work.advance()
    jobs.now = 2 * 30.0 + LOST_S
    work.advance()
    assert len(jobs.begun) == 1
    jobs.now += 1.0
    work.advance()
    work.advance()
    assert (len(jobs.begun), len(jobs.notes)) == (2, 1)
    jobs.begun[-1].set_result("done")
    assert work.advance() is jobs.begun[-1]
