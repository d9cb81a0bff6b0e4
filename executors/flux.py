"""Flux -> nodes: a provider for Parsl, which has none, and what flux batch says before a run."""

from __future__ import annotations

import math
from pathlib import Path

from parsl.jobs.states import JobState
from parsl.launchers.base import Launcher

from steersman.executors.batch import Scripted, answer, blocks
from steersman.executors.executor import Executor
from steersman.executors.site import Site

COMMANDS = ("flux",)
STATES = {
    "DEPEND": JobState.PENDING, "PRIORITY": JobState.PENDING, "SCHED": JobState.PENDING, "PENDING": JobState.PENDING,
    "RUN": JobState.RUNNING, "CLEANUP": JobState.RUNNING, "RUNNING": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED, "FAILED": JobState.FAILED, "CANCELED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
}  # fmt: skip


def provider(site: Site, wanted: Executor, starts: Launcher, worker_init: str) -> Flux:
    """A provider for the blocks of one executor."""
    assert site.flux is not None
    named = {"queue": site.flux.queue, "bank": site.flux.account}
    options = [
        f"--nodes={wanted.nodes}", f"--nslots={wanted.nodes}", "--exclusive",
        f"--time-limit={math.ceil((wanted.walltime_s or 0) / 60)}m",
        *(f"--{name}={value}" for name, value in named.items() if value), *site.flux.options,
    ]  # fmt: skip
    return Flux(options, starts, **blocks(site, wanted, worker_init))


def ask(site: Site, script: Path) -> str:
    """Flux's own test of a submit script: its options make a job; nothing is submitted.

    Raises: BadSite: Flux refuses it, in its own words.
    """
    answer(site, "flux", "batch", "--dry-run", str(script))
    return "flux batch --dry-run accepts it"


class Flux(Scripted):
    """Flux for Parsl."""

    PREFIX = "#flux:"
    NAMED = ("--job-name={name}", "--output={script}.stdout", "--error={script}.stderr")
    SUBMIT = "flux batch {script}"
    CANCEL = "flux cancel"
    ANSWER = r"(\S+)"
    STATUS = "flux jobs -n -o '{{id.f58}} {{status}}' {jobs}"
    STATES = STATES
