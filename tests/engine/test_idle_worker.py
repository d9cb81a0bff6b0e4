"""A worker that is killed while it waits for work must not take the next job with it."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from steersman.bus import ALL, BusTimeout, Server, TupleSpace
from steersman.engine import orphans
from steersman.engine.jobs import Jobs, lost
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site
from steersman.executors.workers import Trainers
from steersman.worker.orders import EVENT
from tests.waiting import until

pytestmark = pytest.mark.slow
BEGINS_S, STARTS_S = 4.0, 7200.0
RECOVERY_S = 120.0


class Clock:
    """The real one, until it is set ahead."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[tuple[Jobs, TupleSpace]]:
    run = tmp_path_factory.mktemp("jobs")
    bus = run / "bus"
    bus.mkdir()
    site = Site(name="one", training=Trainers(workers=1)).serving(["training"])
    with orphans.guarded(run), Server.start(bus):
        space = TupleSpace.connect(bus)
        config = parsl_config(site, run / "parsl")
        config.initialize_logging = False  # its file would be left open in this process
        made = Jobs(config, space, bus, begins_s=BEGINS_S, starts_s=STARTS_S, clock=clock)
        yield made, space
        made.close()


def told(space: TupleSpace) -> list[dict[str, Any]]:
    """What jobs have told."""
    with contextlib.suppress(BusTimeout):
        return [fields for _, _, fields in space.take_many(EVENT, "job", dict, n=ALL, timeout_s=0.25) if fields]
    return []


def begun(jobs: Jobs, space: TupleSpace) -> list[int]:
    """Do what the engine does with what jobs tell; returns which began."""
    heard = told(space)
    for fields in heard:
        jobs.began(fields["job"], fields["manager"], fields["worker"])
    return [fields["job"] for fields in heard]


def ended_in_an_hour(jobs: Jobs, clock: Clock) -> list[str]:
    """What is told of ended blocks, where all stays as it is for an hour."""
    words = []
    for _ in range(3):
        clock.ahead_s += 1200
        words += jobs.end_stuck_blocks()
    return words


def followed(jobs: Jobs, space: TupleSpace, job: Future[Any]) -> list[str]:
    """Do what the engine does until a job is done; returns what was told meanwhile."""
    told = []
    deadline = time.monotonic() + RECOVERY_S
    while not job.done():
        assert time.monotonic() < deadline, "the job neither ended nor was given up"
        begun(jobs, space)
        told += jobs.end_stuck_blocks()
    return told


class Slow:
    """An argument that a worker takes for ever to read, as an import may, until somebody writes into a pipe."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = str(pipe)

    def __reduce__(self) -> tuple[Callable[..., int], tuple[str, int]]:
        return os.open, (self._pipe, os.O_RDONLY)


def kill_when_it_waits(worker: int) -> None:
    """End a worker that does nothing; killed while its result goes out, it would keep a lock for ever."""
    threads = Path(f"/proc/{worker}/task")
    while any(stat.read_text().rpartition(")")[2].split()[0] != "S" for stat in threads.glob("*/stat")):
        time.sleep(0.01)
    psutil.Process(worker).kill()


def test_the_first_job_of_a_manager_may_take_as_long_to_begin_as_its_workers_to_start(
    jobs: tuple[Jobs, TupleSpace], clock: Clock, tmp_path: Path
) -> None:
    mine, space = jobs
    os.mkfifo(tmp_path / "imported")
    first = mine.submit("training", os.close, Slow(tmp_path / "imported"))
    while not (held := sum(manager["tasks"] for manager in mine._pools["training"].managers())):
        assert not first.done()
    assert held == 1
    assert ended_in_an_hour(mine, clock) == []
    (tmp_path / "imported").write_text("")
    assert followed(mine, space, first) == []
    assert first.exception() is None


def test_a_job_given_to_workers_that_cannot_take_it_is_told_to_be_lost(jobs: tuple[Jobs, TupleSpace]) -> None:
    mine, space = jobs
    first = mine.submit("training", os.getpid)
    assert followed(mine, space, first) == []
    told: list[str] = []
    while not told:  # a worker that has just told its result does not wait yet; it is only replaced
        kill_when_it_waits(first.result())  # and holds the lock of its manager's queue
        second = mine.submit("training", os.getpid)
        told = followed(mine, space, second)
        first = first if told else second
    assert len(told) == 1
    assert "not begin" in told[0]
    assert lost(second.exception())
    third = mine.submit("training", os.getpid)
    assert followed(mine, space, third) == []
    assert psutil.pid_exists(third.result())


def test_a_job_that_waits_for_another_one_is_not_stuck(jobs: tuple[Jobs, TupleSpace], clock: Clock) -> None:
    mine, space = jobs
    busy = mine.submit("training", time.sleep, 2)
    while not begun(mine, space):
        assert not busy.done()
    behind = mine.submit("training", os.getpid)
    assert ended_in_an_hour(mine, clock) == []
    assert not busy.done()
    assert followed(mine, space, behind) == []


def test_a_job_whose_beginning_the_bus_forgot_is_at_work_where_anything_else_is_heard_of_it(
    jobs: tuple[Jobs, TupleSpace], clock: Clock, tmp_path: Path
) -> None:
    """Wherever that is, another job waits for it in vain."""
    mine, space = jobs
    os.mkfifo(tmp_path / "end")
    known = [""]
    busy = mine.submit("training", Path.read_text, tmp_path / "end", heard=lambda: known[0])
    while not (forgotten := told(space)):
        assert not busy.done()
    behind = mine.submit("training", os.getpid)
    assert ended_in_an_hour(mine, clock) == []
    known[0] = forgotten[0]["manager"]
    assert ended_in_an_hour(mine, clock) == []
    (tmp_path / "end").write_text("")
    assert followed(mine, space, behind) == []
    assert busy.exception() is None


def test_a_block_is_ended_once_though_parsl_sees_it_late(
    jobs: tuple[Jobs, TupleSpace], clock: Clock, tmp_path: Path
) -> None:
    mine, space = jobs
    os.mkfifo(tmp_path / "end")
    lonely = mine.submit("training", Path.read_text, tmp_path / "end")
    while not told(space):
        assert not lonely.done()
    assert len(ended_in_an_hour(mine, clock)) == 1, "nothing is heard of it"
    assert ended_in_an_hour(mine, clock) == []
    assert not lonely.done()
    assert followed(mine, space, lonely) == []
    assert lost(lonely.exception())


def test_a_parsl_that_lost_its_interchange_leaves_nothing_in_the_driver(
    jobs: tuple[Jobs, TupleSpace], tmp_path: Path
) -> None:
    """A driver of weeks may lose some; 43 files and 17 threads stayed of each."""
    _, space = jobs
    driver, before = psutil.Process(), set(threading.enumerate())
    config = parsl_config(Site(name="two", training=Trainers(workers=1)).serving(["training"]), tmp_path / "parsl")
    config.initialize_logging = False
    (tmp_path / "bus").mkdir()
    files = driver.num_fds()
    with orphans.guarded(tmp_path):
        mine = Jobs(config, space, tmp_path / "bus", begins_s=BEGINS_S)
        mine._pools["training"]._executor.interchange_proc.kill()
        until(lambda: bool(mine.broken))
        mine.close()
    until(lambda: not set(threading.enumerate()) - before)
    assert driver.num_fds() < files + 5
