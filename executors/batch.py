"""What schedulers have in common: Parsl's providers with their defects mended, questions answered in time."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers.base import Launcher
from parsl.providers.cluster_provider import ClusterProvider
from parsl.providers.errors import SubmitException

from steersman.executors.errors import BadSite
from steersman.executors.executor import Executor
from steersman.executors.site import Site

ASK_S = 5  # between two questions about the state of blocks; Parsl's own 60 s replaces a dead block a minute late
ANSWER_S = 30  # a busy scheduler gets so long to answer
AGAIN_S = 10.0  # after a refusal the scheduler is asked for a block again; Parsl would ask every second
log = logging.getLogger(__name__)


class Mended:
    """Stands before a provider of Parsl's: asks in time, and survives an answer that is none.

    Parsl's poller ends with the first exception, and the run would wait for its blocks for ever.
    """

    WHY_QUEUED: ClassVar[tuple[str, str]] = ("", "")  # what prints why a job waits, and where in its answer
    resources: dict[str, Any]
    cmd_timeout: float
    _refusal: tuple[float, Exception] | None = None

    def submit(self, command: str, tasks_per_node: int, job_name: str = "steersman") -> Any:
        """Submit a block. Returns: the job's id. Raises: SubmitException: in the scheduler's words."""
        if self._refusal and time.monotonic() - self._refusal[0] < AGAIN_S:
            raise self._refusal[1]
        try:
            return self._submit(command, tasks_per_node, job_name)
        except SubmitException as refused:
            self._refusal = (time.monotonic(), refused)
            raise

    def _submit(self, command: str, tasks_per_node: int, job_name: str) -> Any:
        return super().submit(command, tasks_per_node, job_name)  # type: ignore[misc]  # the provider behind this one

    def execute_wait(self, cmd: str, timeout: float | None = None) -> tuple[int, str, str]:
        """Run a command of the scheduler's. Returns: exit code, stdout, stderr.

        One that does not end in time is ended, with 124 and what it said: sbatch waits for room in a full queue, and
        Parsl would leave it to submit a job in the end that nobody knows of.
        """
        limit_s = timeout or self.cmd_timeout
        with subprocess.Popen(
            cmd, shell=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace",
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                return 124, out, f"{err.strip()} (ended, for it had no answer within {limit_s:g} s)"
        return process.returncode, out, err

    def why_queued(self, job: str) -> str:
        """In the scheduler's words why a job waits in its queue; "" where it does not say."""
        command, pattern = self.WHY_QUEUED
        found = re.search(pattern, self.execute_wait(command.format(job=job))[1]) if command else None
        return found[1].strip() if found else ""

    @property
    def status_polling_interval(self) -> int:
        return ASK_S

    def status(self, job_ids: Sequence[str]) -> list[Any]:
        """States of jobs; those known before when the scheduler's answer cannot be read."""
        try:
            return super().status(job_ids)  # type: ignore[misc,no-any-return]  # the provider behind this one
        except Exception as error:  # whatever Parsl meets in words that it does not expect
            log.warning("the scheduler's answer cannot be read: %s: %s", type(error).__name__, error)
            return [self.resources[job]["status"] for job in job_ids]


class Scripted(Mended, ClusterProvider):  # type: ignore[misc]  # Parsl has no types
    """A provider for a scheduler that Parsl has none for, or one with too many defects.

    A subclass says: how an option stands in a script (PREFIX), which options name the job and its files (NAMED), how a
    script is submitted and jobs are cancelled, what the scheduler's answer says of the job's id (ANSWER), what prints a
    line of id and state for each job (STATUS), what these states are (STATES), and perhaps how its stderr tells that a
    job is forgotten (FORGOTTEN), which then has ended.
    """

    PREFIX: ClassVar[str]
    NAMED: ClassVar[tuple[str, ...]]
    SUBMIT: ClassVar[str]
    CANCEL: ClassVar[str]
    ANSWER: ClassVar[str]
    STATUS: ClassVar[str]
    STATES: ClassVar[Mapping[str, JobState]]
    FORGOTTEN: ClassVar[str | None] = None

    def __init__(self, options: Sequence[str], launcher: Launcher, *, worker_init: str, **shared: Any) -> None:
        super().__init__(type(self).__name__, parallelism=1, launcher=launcher, **shared)
        self.options, self.worker_init = list(options), worker_init

    def _submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        name = f"{job_name}.{time.time()}"
        script = Path(self.script_dir) / name
        named = [option.format(name=name, script=script) for option in self.NAMED]
        header = [f"{self.PREFIX} {option}" for option in (*named, *self.options)]
        start = self.launcher(command, tasks_per_node, self.nodes_per_block, self.script_dir)
        lines = ["#!/bin/bash", *header, self.worker_init, f'export JOBNAME="{name}"', start]
        script.write_text("\n".join(lines) + "\n")
        code, told, problem = self.execute_wait(self.SUBMIT.format(script=script))
        found = re.search(self.ANSWER, told)
        if code or found is None:
            raise SubmitException(name, f"{self.SUBMIT.split()[0]}: {problem.strip() or told.strip()}")
        self.resources[found[1]] = {"job_id": found[1], "status": JobStatus(JobState.PENDING)}
        return found[1]

    def cancel(self, job_ids: Sequence[str]) -> list[bool]:
        """Cancel jobs. Returns: whether, for each."""
        code, _, _ = self.execute_wait(f"{self.CANCEL} {' '.join(job_ids)}")
        for job in job_ids if code == 0 else ():
            self.resources[job]["status"] = JobStatus(JobState.CANCELLED)
        return [code == 0] * len(job_ids)

    def _status(self) -> None:
        asked = [job for job, known in self.resources.items() if not known["status"].terminal]
        if not asked:
            return
        _, told, problems = self.execute_wait(self.STATUS.format(jobs=" ".join(asked)))
        states = dict(line.split() for line in told.splitlines() if line.strip())
        for job in asked:
            if job in states:
                self.resources[job]["status"] = JobStatus(self.STATES.get(states[job], JobState.UNKNOWN))
            elif self.FORGOTTEN and self.FORGOTTEN.format(job=job) in problems:
                self.resources[job]["status"] = JobStatus(JobState.COMPLETED)


def blocks(site: Site, wanted: Executor, worker_init: str) -> dict[str, Any]:
    """Arguments that all providers of Parsl's share."""
    return {
        "nodes_per_block": wanted.nodes,
        "init_blocks": wanted.blocks,
        "min_blocks": wanted.blocks,
        "max_blocks": wanted.blocks,
        "walltime": clock(wanted),
        "worker_init": worker_init,
        "cmd_timeout": ANSWER_S,
    }


def clock(wanted: Executor) -> str:
    """The time limit of a block, rounded up to minutes, as HH:MM:SS."""
    minutes = math.ceil((wanted.walltime_s or 0) / 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def answer(site: Site, *command: str) -> str:
    """What a command of the scheduler prints.

    Raises: BadSite: it is not here, does not answer, or refuses, in its own words.
    """
    if shutil.which(command[0]) is None:
        raise BadSite(site.name, f"there is no {command[0]} on PATH; run on a login node of the cluster")
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise BadSite(site.name, f"{command[0]} has not answered for {ANSWER_S} s; is the scheduler up?") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split()).removeprefix("allocation failure: ")
        raise BadSite(site.name, f"{said or f'exit code {done.returncode}'}  (asked by: {' '.join(command)})")
    return done.stdout
