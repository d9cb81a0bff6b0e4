"""One job for several executors: each says what starts its workers, and the job runs that side by side.

A job that Parsl knows as a block of each executor is asked for by the first of them. It waits until each has left its
commands in a folder. When those of one fail all end, and the next job takes the place of all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parsl.jobs.states import JobStatus
from parsl.launchers.base import Launcher
from parsl.providers.base import ExecutionProvider

from steersman.executors.workers import Workers

TOGETHER = "parsl.together"  # the name of their scripts begins so
# Not with `wait -n`, which waits forever for a child that has ended before it is called.
JOB = """
trap 'kill $(jobs -p); exit 1' TERM
for role in {roles}; do
  (until [ -e {folder}/$role ]; do sleep 1; done; /bin/bash {folder}/$role || kill $$) &
done
wait
"""


class TogetherLauncher(Launcher):  # type: ignore[misc]  # Parsl has no types
    """The script of a job, given the folder in which each role leaves its commands."""

    def __init__(self, roles: Sequence[str]) -> None:
        super().__init__()
        self.roles = roles

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        return JOB.format(roles=" ".join(self.roles), folder=command)


@dataclass
class _Job:
    name: str
    folder: Path
    taken: set[str] = field(default_factory=set)  # roles that have left their commands


class Together:
    """The jobs that several executors share.

    Args:
        provider: of Parsl's or ours; it submits the jobs, with TogetherLauncher as its launcher.
    """

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self._jobs: list[_Job] = []

    def enter(self, role: str, commands: str) -> str:
        """Have commands run in a job that has none of this role yet. Returns: the job's name."""
        alive = [job for job in self._jobs if not self._known(job.name).terminal]
        job = next((job for job in alive if role not in job.taken), None) or self._submit()
        job.taken.add(role)
        partial = job.folder / f"{role}.partial"
        partial.write_text(commands)
        partial.replace(job.folder / role)
        return job.name

    def status(self, names: Sequence[str]) -> list[JobStatus]:
        return list(self.provider.status(names))

    def cancel(self, names: Sequence[str]) -> list[bool]:
        """Cancel jobs, once each: that they end is true of the other roles as well."""
        alive = [name for name in names if not self._known(name).terminal]
        if alive:
            self.provider.cancel(alive)
        return [True] * len(names)

    def _submit(self) -> _Job:
        folder = Path(self.provider.script_dir) / f"together-{len(self._jobs)}-{time.time_ns()}"
        folder.mkdir()
        job = _Job(self.provider.submit(str(folder), 1, TOGETHER), folder)
        self._jobs.append(job)
        return job

    def _known(self, name: str) -> JobStatus:
        status: JobStatus = self.provider.resources[name]["status"]
        return status


class Share(ExecutionProvider):  # type: ignore[misc]  # Parsl has no types
    """One executor's part of such jobs."""

    def __init__(self, jobs: Together, role: str, wanted: Workers, launcher: Launcher) -> None:
        self.jobs, self.role, self.launcher = jobs, role, launcher
        self.nodes_per_block, self.parallelism = wanted.nodes, 1
        self.init_blocks = self.min_blocks = self.max_blocks = wanted.blocks
        self.script_dir: str | None = None

    @property
    def label(self) -> str:
        return self.role

    def submit(self, command: str, tasks_per_node: int, job_name: str = "steersman") -> str:
        """Start a block's workers in a job. Returns: the job's name. Raises: Refused."""
        self.jobs.provider.script_dir = self.script_dir
        at = f"{self.script_dir}/{job_name}.{time.time()}"
        start = self.launcher(command, tasks_per_node, self.nodes_per_block, self.script_dir)
        return self.jobs.enter(
            self.role, f"exec > {at}.stdout 2> {at}.stderr\nexport JOBNAME={Path(at).name}\n{start}\n"
        )

    def status(self, job_ids: Sequence[str]) -> list[JobStatus]:
        return self.jobs.status(job_ids)

    def cancel(self, job_ids: Sequence[str]) -> list[bool]:
        return self.jobs.cancel(job_ids)

    @property
    def status_polling_interval(self) -> int:
        return int(self.jobs.provider.status_polling_interval)
