"""A worker that is killed while it waits for work must not take the next job with it."""

import contextlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from steersman.apps.publisher import EVENT
from steersman.bus import ALL, BusTimeout, Server, TupleSpace
from steersman.engine import orphans
from steersman.engine.jobs import Jobs, lost
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site, Training

pytestmark = pytest.mark.slow
RECOVERY_S = 120.0


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[tuple[Jobs, TupleSpace]]:
    bus = tmp_path / "bus"
    bus.mkdir()
    site = Site(name="one", training=Training(workers=1))
    with orphans.guarded(tmp_path), Server.start(bus):
        space = TupleSpace.connect(bus)
        config = parsl_config(site, tmp_path / "parsl", ["training"])
        config.initialize_logging = False  # its file would be left open in this process
        made = Jobs(config, space, bus, begins_s=4.0)
        yield made, space
        made.close()


def followed(jobs: Jobs, space: TupleSpace, job: Future[Any]) -> list[str]:
    """Do what the engine does until a job is done; returns what was told meanwhile."""
    told = []
    deadline = time.monotonic() + RECOVERY_S
    while not job.done():
        assert time.monotonic() < deadline, "the job neither ended nor was given up"
        with contextlib.suppress(BusTimeout):
            for _, _, fields in space.take_many(EVENT, "job", dict, n=ALL, timeout_s=0.25):
                if fields:
                    jobs.began(fields["job"], fields["manager"])
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
    busy = mine.submit("training", time.sleep, 9)
    behind = mine.submit("training", os.getpid)
    assert followed(mine, space, behind) == [], "a job that waits for another one is not stuck"
    assert busy.done()
