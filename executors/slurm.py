"""Slurm -> nodes: Parsl's provider with its defects mended, and what sbatch says before a run."""

from __future__ import annotations

import math
import shutil
import subprocess
from typing import Any

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

from steersman.executors.errors import BadSite
from steersman.executors.site import Executor, Site

ASK_S = 5  # between two questions about the state of blocks
ANSWER_S = 30  # a busy scheduler gets so long to answer


def provider(site: Site, wanted: Executor, worker_init: str) -> SlurmProvider:
    """Parsl's provider for the blocks of one executor."""
    return _Slurm(
        scheduler_options="\n".join(f"#SBATCH {option}" for option in _options(site)),
        exclusive=False,  # said in the options, if so
        nodes_per_block=wanted.nodes,
        init_blocks=wanted.blocks,
        min_blocks=wanted.blocks,
        max_blocks=wanted.blocks,
        walltime=_clock(wanted),
        worker_init=worker_init,
        cmd_timeout=ANSWER_S,
        launcher=SrunLauncher(),
    )


def check(site: Site) -> None:
    """Ask the scheduler whether it would take the blocks of a site; nothing is submitted.

    Raises: BadSite: Slurm's commands are not here, it does not answer, or it refuses, in its own words.
    """
    for role in ("simulation", "training"):
        wanted: Executor = getattr(site, role)
        if wanted.nodes:
            _ask(site, role, wanted)


def _ask(site: Site, role: str, wanted: Executor) -> None:
    if shutil.which("sbatch") is None:
        raise BadSite(site.name, "there is no sbatch on PATH; run on a login node of the cluster")
    size = [f"--nodes={wanted.nodes}", f"--time={_clock(wanted)}", "--ntasks-per-node=1"]
    command = ["sbatch", "--test-only", *_options(site), *size, "--wrap=true"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadSite(site.name, f"sbatch has not answered for {ANSWER_S} s; is the scheduler up? (sinfo)") from None
    if answer.returncode:
        said = " ".join(answer.stderr.split()).removeprefix("allocation failure: ")
        raise BadSite(site.name, f"Slurm refuses the {role} nodes: {said}  (asked by: {' '.join(command)})")


def _options(site: Site) -> list[str]:
    assert site.slurm is not None
    named = site.slurm.model_dump(include={"account", "partition", "qos", "constraint"})
    options = [f"--{name}={value}" for name, value in named.items() if value]
    # A job that Slurm itself starts again would run beside the block that Parsl started in its place.
    return [*options, *(["--exclusive"] if site.slurm.exclusive else []), "--no-requeue", *site.slurm.options]


def _clock(wanted: Executor) -> str:
    minutes = math.ceil((wanted.walltime_s or 0) / 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


class _Slurm(SlurmProvider):  # type: ignore[misc]  # Parsl has no types
    """Parsl's, but asked in time, and not believing that a job has ended because accounting does not know it yet."""

    @property
    def status_polling_interval(self) -> int:
        return ASK_S

    def _status(self) -> None:
        before: dict[str, Any] = {job: known["status"] for job, known in self.resources.items()}
        super()._status()
        for job, known in self.resources.items():
            unseen = known["status"].state is JobState.COMPLETED and before[job].state is JobState.PENDING
            if unseen and not known.get("asked_again"):
                known["asked_again"] = True
                known["status"] = JobStatus(JobState.PENDING)
