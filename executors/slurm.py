"""Slurm -> nodes: Parsl's provider with its defects mended, and what sbatch says before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers.base import Launcher
from parsl.providers import SlurmProvider

from steersman.executors.batch import Mended, answer, blocks
from steersman.executors.executor import Executor
from steersman.executors.site import Site

COMMANDS = ("sbatch", "squeue", "scancel")


def provider(site: Site, wanted: Executor, starts: Launcher, worker_init: str) -> SlurmProvider:
    """Parsl's provider for the blocks of one executor."""
    return _Slurm(
        scheduler_options="\n".join(f"#SBATCH {option}" for option in _options(site)),
        exclusive=False,  # said in the options, if so
        launcher=starts,
        **blocks(site, wanted, worker_init),
    )


def ask(site: Site, script: Path) -> str:
    """Slurm's own test of a submit script; nothing is submitted.

    Raises: BadSite: Slurm refuses it, in its own words.
    """
    answer(site, "sbatch", "--test-only", str(script))
    return "sbatch --test-only accepts it"


def _options(site: Site) -> list[str]:
    assert site.slurm is not None
    named = site.slurm.model_dump(include={"account", "partition", "qos", "constraint"})
    options = [f"--{name}={value}" for name, value in named.items() if value]
    # A job that Slurm itself starts again would run beside the block that Parsl started in its place.
    return [*options, *(["--exclusive"] if site.slurm.exclusive else []), "--no-requeue", *site.slurm.options]


class _Slurm(Mended, SlurmProvider):  # type: ignore[misc]  # Parsl has no types
    """Parsl's, but not believing that a job has ended because accounting does not know it yet."""

    WHY_QUEUED = ("squeue --noheader --job {job} --format=%r", r"(\S.*)")

    def _status(self) -> None:
        before: dict[str, Any] = {job: known["status"] for job, known in self.resources.items()}
        super()._status()
        for job, known in self.resources.items():
            unseen = known["status"].state is JobState.COMPLETED and before[job].state is JobState.PENDING
            if unseen and not known.get("asked_again"):
                known["asked_again"] = True
                known["status"] = JobStatus(JobState.PENDING)
