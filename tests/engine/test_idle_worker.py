"""A worker that is killed while it waits for work must not take the next job with it."""

import contextlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import psutil
import pytest

from steersman.apps.publisher import EVENT
from steersman.bus import ALL, BusTimeout, Server, TupleSpace
from steersman.engine import jobs as engine_jobs
from steersman.engine import orphans
from steersman.engine.jobs import Jobs, lost
from steersman.executors.executor import Training
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site

pytestmark = pytest.mark.slow
BEGINS_S = 4.0  # twice as long is how long Parsl needs to see that a block is gone, which is not ended again
RECOVERY_S = 120.0


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Jobs, TupleSpace]]:
    run = tmp_path_factory.mktemp("jobs")
    bus = run / "bus"
    bus.mkdir()
    site = Site(name="one", training=Training(workers=1)).serving(["training"])
    with orphans.guarded(run), Server.start(bus):
        space = TupleSpace.connect(bus)
        config = parsl_config(site, run / "parsl")
        config.initialize_logging = False  # its file would be left open in this process
        made = Jobs(config, space, bus, begins_s=BEGINS_S)
        yield made, space
        made.close()


def begun(jobs: Jobs, space: TupleSpace) -> list[int]:
    """Do what the engine does with what jobs tell; returns which began."""
    with contextlib.suppress(BusTimeout):
        told = [fields for _, _, fields in space.take_many(EVENT, "job", dict, n=ALL, timeout_s=0.25) if fields]
        for fields in told:
            jobs.began(fields["job"], fields["manager"])
        return [fields["job"] for fields in told]
    return []


def followed(jobs: Jobs, space: TupleSpace, job: Future[Any]) -> list[str]:
    """Do what the engine does until a job is done; returns what was told meanwhile."""
    told = []
    deadline = time.monotonic() + RECOVERY_S
    while not job.done():
        assert time.monotonic() < deadline, "the job neither ended nor was given up"
        begun(jobs, space)
        told += jobs.end_stuck_blocks()
    return told


def test_a_job_given_to_workers_that_cannot_take_it_is_told_to_be_lost(jobs: tuple[Jobs, TupleSpace]) -> None:
    mine, space = jobs
    first = mine.submit("training", os.getpid)
    assert followed(mine, space, first) == []
    told: list[str] = []
    while not told:  # a worker that has just told its result does not wait yet; it is only replaced
        psutil.Process(first.result()).kill()  # it waits for work, and holds the lock of its manager's queue
        second = mine.submit("training", os.getpid)
        told = followed(mine, space, second)
        first = first if told else second
    assert len(told) == 1
    assert "a training job did not begin" in told[0]
    assert lost(second.exception())
    third = mine.submit("training", os.getpid)
    assert followed(mine, space, third) == []
    assert psutil.pid_exists(third.result())


def test_a_job_that_waits_for_another_one_is_not_stuck(
    jobs: tuple[Jobs, TupleSpace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: the look takes place as if the time in which a job begins were over, again and again."""
    mine, space = jobs
    busy = mine.submit("training", time.sleep, 2)
    while not begun(mine, space):
        assert not busy.done()
    behind = mine.submit("training", os.getpid)
    with monkeypatch.context() as impatient:
        impatient.setattr(engine_jobs, "LOOK_S", 0.0)
        impatient.setattr(mine, "_begins_s", 0.0)
        assert not any(mine.end_stuck_blocks() for _ in range(3))
        assert not busy.done()
    assert followed(mine, space, behind) == []
