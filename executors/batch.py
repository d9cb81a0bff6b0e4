"""A scheduler -> a provider for Parsl, which asks it for blocks.

Not Parsl's own providers: they ask for states every 60 s, believe an answer that is none, hide why a job is refused,
or wait forever for jobs that are forgotten; see docs/design/007-executors.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers.base import Launcher
from parsl.providers.cluster_provider import ClusterProvider

from steersman.executors.errors import Refused
from steersman.executors.schedulers.commands import ANSWER_S
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.schedulers.scheduler import Block, Scheduler
from steersman.executors.site import Site
from steersman.executors.workers import Workers

AGAIN_S = 10.0  # after a refusal the scheduler is asked for a block again; Parsl would ask every second
JOB = ".job"  # behind the name of a script: the job that it became
OF_JOBS = re.compile("|".join(each.OF_JOB for each in SCHEDULERS.values()))
log = logging.getLogger(__name__)


class Batch(ClusterProvider):  # type: ignore[misc]  # Parsl has no types
    """Blocks of nodes, as jobs of a scheduler.

    Args:
        title: what the scheduler calls the jobs, see `job_title`.
        before: shell lines before what starts the workers.
        poll_s: between two questions about the state of blocks; Parsl's own 60 s replaces a dead block a minute late.
    """

    def __init__(
        self, scheduler: Scheduler, title: str, wanted: Workers, launcher: Launcher, before: str, poll_s: int
    ) -> None:
        count = dict.fromkeys(("init_blocks", "min_blocks", "max_blocks"), wanted.blocks)
        super().__init__(
            scheduler.TITLE, nodes_per_block=wanted.nodes, parallelism=1, walltime=wanted.walltime_s,
            launcher=launcher, cmd_timeout=ANSWER_S, **count,
        )  # fmt: skip
        self.scheduler, self.title, self.before, self.poll_s = scheduler, title, before, poll_s
        self.workers_per_node = wanted.per_node
        self._refusal: tuple[float, Refused] | None = None

    def script(self, command: str, tasks_per_node: int, name: str) -> Path:
        """Write the script of a block."""
        file = Path(self.script_dir) / name
        asked = Block(self.title, file, self.nodes_per_block, self.walltime or 0.0, self.workers_per_node)
        header = [f"{self.scheduler.PREFIX} {option}" for option in self.scheduler.header(asked)]
        start = self.launcher(command, tasks_per_node, self.nodes_per_block, self.script_dir)
        before = [line for line in (self.scheduler.BEFORE, self.before) if line]
        file.write_text("\n".join(["#!/bin/bash", *header, *before, f'export JOBNAME="{name}"', start]) + "\n")
        return file

    def submit(self, command: str, tasks_per_node: int, job_name: str = "steersman") -> str:
        """Submit a block. Returns: the job's id. Raises: Refused: in the scheduler's words."""
        if self._refusal and time.monotonic() - self._refusal[0] < AGAIN_S:
            raise self._refusal[1]
        name = f"{job_name}.{time.time()}"
        script = self.script(command, tasks_per_node, name)
        code, out, err = self.execute_wait(self.scheduler.submit(script))
        number = re.search(self.scheduler.ID, out)
        if code or number is None:
            refused = Refused(f"{self.scheduler.COMMANDS[0]}: {err.strip() or out.strip()}")
            self._refusal = (time.monotonic(), refused)
            raise refused
        script.with_name(f"{script.name}{JOB}").write_text(number[1])
        self.resources[number[1]] = {"job_id": number[1], "status": JobStatus(JobState.PENDING)}
        return number[1]

    def cancel(self, job_ids: Sequence[str]) -> list[bool]:
        """Cancel jobs. Returns: whether, for each."""
        code, _, _ = self.execute_wait(f"{self.scheduler.CANCEL} {shlex.join(job_ids)}")
        for job in job_ids if code == 0 else ():
            self.resources[job]["status"] = JobStatus(JobState.CANCELLED)
        return [code == 0] * len(job_ids)

    def _status(self) -> None:
        """Ask for states; those known before stay when the answer cannot be read, for Parsl would scale no executor."""
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
        reason = re.search(pattern, self.execute_wait(command.format(job=shlex.quote(job)))[1]) if command else None
        return reason[1].strip() if reason else ""

    @property
    def status_polling_interval(self) -> int:
        return self.poll_s

    def execute_wait(self, cmd: str, timeout: float | None = None) -> tuple[int, str, str]:
        """Run a command of the scheduler's. Returns: exit code, stdout, stderr.

        One that does not end in time is ended, with 124 and what it said: sbatch waits for room in a full queue, and
        Parsl would leave it to submit a job in the end that nobody knows of.
        """
        return _said(cmd, timeout or self.cmd_timeout)


def _said(command: str, limit_s: float) -> tuple[int, str, str]:
    with subprocess.Popen(
        command, shell=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", env=outside_of_jobs(os.environ),
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return 124, out, f"{err.strip()} (ended, because it did not answer within {limit_s:g} s)"
    return process.returncode, out, err


def job_title(run: Path) -> str:
    """What the jobs of a run are called: its folder's name, as far as schedulers take it, and which folder it is."""
    path = run.resolve()
    which = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return f"steersman-{re.sub(r'[^A-Za-z0-9._-]', '_', path.name)[:40]}-{which}"


def jobs_of(site: Site, run: Path) -> list[str]:
    """Jobs of a run that wait or run, as its scheduler knows them; none where it cannot be asked."""
    if site.scheduler is None or shutil.which(site.scheduler.COMMANDS[0]) is None:
        return []
    code, out, _ = _said(site.scheduler.NAMED.format(name=job_title(run)), ANSWER_S)
    return [] if code else out.split()


def cancel(site: Site, jobs: Sequence[str]) -> str:
    """Cancel jobs of a site's scheduler. Returns: why they are not, in its words; "" if they are."""
    assert site.scheduler is not None
    code, out, err = _said(f"{site.scheduler.CANCEL} {shlex.join(jobs)}", ANSWER_S)
    return " ".join((err or out).split()) or f"exit code {code}" if code else ""


def cancel_left(run: Path, scheduler: Scheduler) -> list[str]:
    """Cancel the jobs that a driver submitted which was killed. Returns: their ids, also of those that had ended."""
    jobs = [file.read_text() for file in sorted(run.rglob(f"*{JOB}"))]
    if jobs:
        command = f"{scheduler.CANCEL} {shlex.join(jobs)}"
        subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S,
            env=outside_of_jobs(os.environ), check=False,
        )  # fmt: skip
    return jobs


def outside_of_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a job has that the driver was started in: what it submits would inherit that."""
    return {name: value for name, value in environment.items() if not OF_JOBS.fullmatch(name)}
