"""A site -> the scheduler that it names, and whether that would take its blocks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

from parsl.launchers.base import Launcher

from steersman.executors import flux, lsf, pbs, slurm
from steersman.executors.errors import BadSite
from steersman.executors.executor import Executor
from steersman.executors.site import Site


class Scheduler(Protocol):
    """What a scheduler's module holds; COMMANDS are those that a run calls."""

    @property
    def COMMANDS(self) -> tuple[str, ...]: ...

    def provider(self, site: Site, wanted: Executor, starts: Launcher, worker_init: str) -> Any: ...

    def ask(self, site: Site, script: Path) -> str: ...


MODULES: dict[str, Scheduler] = {"slurm": slurm, "pbs": pbs, "lsf": lsf, "flux": flux}
TITLES = {"slurm": "Slurm", "pbs": "PBS", "lsf": "LSF", "flux": "Flux"}


def of(site: Site) -> Scheduler:
    """The scheduler that gives a site its nodes."""
    return MODULES[site.scheduler]


def missing(site: Site) -> list[str]:
    """The scheduler's commands that are not on PATH."""
    return [command for command in of(site).COMMANDS if shutil.which(command) is None]


def lacking(site: Site) -> str:
    """What must be given before a run and is not; "" if nothing."""
    named = getattr(site, site.scheduler, None)
    given = {"account": getattr(named, "account", ""), "queue": queue(site)}
    return ", ".join(name for name in site.needs if not given[name])


def queue(site: Site) -> str:
    """Queue, partition or QOS that is asked; "" for the default one."""
    named: Any = getattr(site, site.scheduler, None)
    return str((named.qos or named.partition) if site.slurm else named.queue) if named else ""


def ask(site: Site, role: str, script: str, folder: Path) -> str:
    """What the scheduler says of the script of one executor, written into a folder.

    Raises: BadSite: it refuses, in its own words, or its commands are not here.
    """
    if gone := missing(site):
        raise BadSite(site.name, f"there is no {', '.join(gone)} on PATH; run on a login node of the cluster")
    file = folder / f"{role}.sh"
    file.write_text(script)
    try:
        return of(site).ask(site, file)
    except BadSite as refused:
        raise BadSite(site.name, f"{TITLES[site.scheduler]} refuses the {role} nodes: {refused.problem}") from None
