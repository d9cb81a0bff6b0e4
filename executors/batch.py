"""A scheduler -> a provider for Parsl, which asks it for blocks.

Not Parsl's own providers: they ask for states every 60 s, believe an answer that is none, hide why a job is refused,
or wait for ever for jobs that are forgotten; see docs/design/007-executors.md.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers.base import Launcher
from parsl.providers.cluster_provider import ClusterProvider
from parsl.providers.errors import SubmitException

from steersman.executors.schedulers.commands import ANSWER_S
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.schedulers.scheduler import Block, Scheduler
from steersman.executors.workers import Workers

ASK_S = 5  # between two questions about the state of blocks; Parsl's own 60 s replaces a dead block a minute late
AGAIN_S = 10.0  # after a refusal the scheduler is asked for a block again; Parsl would ask every second
OF_JOBS = re.compile("|".join(each.OF_JOB for each in SCHEDULERS.values()))
log = logging.getLogger(__name__)


class Batch(ClusterProvider):  # type: ignore[misc]  # Parsl has no types
    """Blocks of nodes, as jobs of a scheduler.

    Args:
        before: shell lines before what starts the workers.
    """

    def __init__(self, scheduler: Scheduler, wanted: Workers, launcher: Launcher, before: str) -> None:
        count = dict.fromkeys(("init_blocks", "min_blocks", "max_blocks"), wanted.blocks)
        super().__init__(
            scheduler.TITLE, nodes_per_block=wanted.nodes, parallelism=1, walltime=wanted.walltime_s,
            launcher=launcher, cmd_timeout=ANSWER_S, **count,
        )  # fmt: skip
        self.scheduler, self.before = scheduler, before
        self._refusal: tuple[float, SubmitException] | None = None

    def script(self, command: str, tasks_per_node: int, name: str) -> Path:
        """Write the script of a block."""
        file = Path(self.script_dir) / name
        asked = Block(name, file, self.nodes_per_block, self.walltime or 0.0)
        header = [f"{self.scheduler.PREFIX} {option}" for option in self.scheduler.header(asked)]
        start = self.launcher(command, tasks_per_node, self.nodes_per_block, self.script_dir)
        before = [line for line in (self.scheduler.BEFORE, self.before) if line]
        file.write_text("\n".join(["#!/bin/bash", *header, *before, f'export JOBNAME="{name}"', start]) + "\n")
        return file

    def submit(self, command: str, tasks_per_node: int, job_name: str = "steersman") -> str:
        """Submit a block. Returns: the job's id. Raises: SubmitException: in the scheduler's words."""
        if self._refusal and time.monotonic() - self._refusal[0] < AGAIN_S:
            raise self._refusal[1]
        name = f"{job_name}.{time.time()}"
        code, out, err = self.execute_wait(self.scheduler.submit(self.script(command, tasks_per_node, name)))
        found = re.search(self.scheduler.ID, out)
        if code or found is None:
            refused = SubmitException(name, f"{self.scheduler.COMMANDS[0]}: {err.strip() or out.strip()}")
            self._refusal = (time.monotonic(), refused)
            raise refused
        self.resources[found[1]] = {"job_id": found[1], "status": JobStatus(JobState.PENDING)}
        return found[1]

    def cancel(self, job_ids: Sequence[str]) -> list[bool]:
        """Cancel jobs. Returns: whether, for each."""
        code, _, _ = self.execute_wait(f"{self.scheduler.CANCEL} {shlex.join(job_ids)}")
        for job in job_ids if code == 0 else ():
            self.resources[job]["status"] = JobStatus(JobState.CANCELLED)
        return [code == 0] * len(job_ids)

    def _status(self) -> None:
        """Ask for states; those known before stay when the answer cannot be read, for Parsl's poller would end."""
        asked = [job for job, known in self.resources.items() if not known["status"].terminal]
        if not asked:
            return
        answer = self.execute_wait(
            self.scheduler.STATUS.format(jobs=shlex.join(asked), commas=shlex.quote(",".join(asked)))
        )
        try:
            states = self.scheduler.states(asked, *answer)
        except Exception as error:  # whatever words there may be that nobody expects
            log.warning("the scheduler's answer cannot be read: %s: %s", type(error).__name__, error)
            return
        for job, state in states.items():
            self.resources[job]["status"] = JobStatus(JobState[state])

    def why_queued(self, job: str) -> str:
        """In the scheduler's words why a job waits in its queue; "" where it does not say."""
        command, pattern = self.scheduler.WHY_QUEUED
        found = re.search(pattern, self.execute_wait(command.format(job=shlex.quote(job)))[1]) if command else None
        return found[1].strip() if found else ""

    @property
    def status_polling_interval(self) -> int:
        return ASK_S

    def execute_wait(self, cmd: str, timeout: float | None = None) -> tuple[int, str, str]:
        """Run a command of the scheduler's. Returns: exit code, stdout, stderr.

        One that does not end in time is ended, with 124 and what it said: sbatch waits for room in a full queue, and
        Parsl would leave it to submit a job in the end that nobody knows of.
        """
        limit_s = timeout or self.cmd_timeout
        with subprocess.Popen(
            cmd, shell=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env=outside_of_jobs(os.environ),
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                return 124, out, f"{err.strip()} (ended, for it had no answer within {limit_s:g} s)"
        return process.returncode, out, err


def outside_of_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a job has that the driver was started in: what it submits would inherit that."""
    return {name: value for name, value in environment.items() if not OF_JOBS.fullmatch(name)}
