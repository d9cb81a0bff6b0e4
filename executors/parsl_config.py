"""Site -> Parsl's configuration, and the script that a block is submitted with."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parsl.config import Config
from parsl.launchers import WrappedLauncher
from parsl.launchers.base import Launcher
from parsl.providers import LocalProvider

from steersman.bus.addresses import TUNNEL
from steersman.executors import packed, python_site
from steersman.executors.allocation import allocation
from steersman.executors.batch import Batch, job_title
from steersman.executors.executor import Blockless
from steersman.executors.launcher import BINARIES, INIT, ONE_THREAD, ONE_THREAD_EACH, SHORT_TMPDIR, launcher
from steersman.executors.pool import started
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.site import Site
from steersman.executors.together import Share, Together, TogetherLauncher
from steersman.executors.workers import Workers

TITLE = "steersman"  # of jobs where no run is known yet


def parsl_config(site: Site, run_directory: Path) -> Config:
    """Parsl's configuration for one run."""
    if BINARIES not in os.environ["PATH"].split(os.pathsep):  # Parsl starts its own programs by name
        os.environ["PATH"] = BINARIES + os.pathsep + os.environ["PATH"]
    if any(
        one.in_driver for one in site.executors.values()
    ):  # as on workers, where more than one thread waits for walkers' cores
        os.environ.update(ONE_THREAD_EACH)
    if site.parsl:
        return python_site.config(site, run_directory.parent)
    given = providers(site, run_directory.parent)
    executors = [
        one.parsl(site.name, role) if isinstance(one, Blockless) else started(site, role, given[role])
        for role, one in site.executors.items()
    ]
    return Config(
        executors=executors,
        run_dir=str(run_directory),
        strategy="simple",  # a block that ended or died is replaced
        strategy_period=1,
        max_idletime=math.inf,  # one that was asked for ahead of its time stays
        retries=0,  # the engine itself decides what is run again
        usage_tracking=0,
        initialize_logging=True,
    )


def submit_scripts(site: Site) -> dict[str, str]:
    """The script with which a block of each executor is given to a scheduler; files of the run lie in $RUN."""
    if site.inside:
        return {}
    if site.shares:
        return {" and ".join(_sharing(site)): _script(_together(site).provider, "$RUN/together", "together")}
    return {role: _script(provider(site, role), "process_worker_pool.py ...", role) for role in site.with_nodes}


def _sharing(site: Site) -> list[str]:
    return [role for role, wanted in site.workers.items() if wanted.nodes]


def _script(written: Batch, command: str, name: str) -> str:
    with TemporaryDirectory() as folder:
        written.script_dir = folder
        return written.script(command, 1, f"steersman.{name}.{time.time()}").read_text().replace(folder, "$RUN")


def providers(site: Site, run: Path | None = None) -> dict[str, Any]:
    """What gives Parsl the blocks of each executor that has some; None: their scripts are only looked at."""
    if site.inside or not site.shares:
        return {role: provider(site, role, run) for role in site.workers}
    jobs = _together(site, run)
    return {
        role: Share(jobs, role, wanted, launcher(site, role)) if wanted.nodes else provider(site, role, run)
        for role, wanted in site.workers.items()
    }


def _together(site: Site, run: Path | None = None) -> Together:
    nodes = sum(wanted.nodes for wanted in site.with_nodes.values())
    one = next(iter(site.with_nodes.values()))
    assert site.scheduler is not None  # a site whose executors share names one
    beside = sum(wanted.per_node for role, wanted in site.workers.items() if site.is_beside(role))
    most = max(wanted.per_node + beside * (role == "simulation") for role, wanted in site.with_nodes.items())
    whole = Workers(nodes=nodes, workers=most, blocks=one.blocks, walltime_s=one.walltime_s)
    return Together(_batch(site, site.scheduler, run, whole, TogetherLauncher(_sharing(site))))


def provider(site: Site, role: str, run: Path | None = None) -> Any:
    """What gives Parsl the blocks of one executor that has its own."""
    wanted, named = site.workers[role], site.scheduler_of(role)
    lines = _lines(site, wanted, run)
    if site.inside and wanted.nodes:
        return _local(wanted, lines, launcher(site, role))
    if wanted.nodes:
        assert named is not None  # a site that asks for nodes names one
        return _batch(site, named, run, wanted, launcher(site, role))
    # A time limit is kept as by a scheduler.
    limit = "" if wanted.walltime_s is None else f" timeout --signal=KILL {int(wanted.walltime_s)}"
    starts = WrappedLauncher(f"nice -n {site.nice}{limit}")
    # A shell in which the driver is started may outlive the job that it began in.
    path = f"export PATH={shlex.quote(BINARIES)}:$PATH"
    return _local(wanted, [path, ONE_THREAD, SHORT_TMPDIR, "unset SLURM_JOB_END_TIME", *lines], starts)


def _batch(site: Site, scheduler: Scheduler, run: Path | None, wanted: Workers, starts: Launcher) -> Batch:
    title = job_title(run) if run else TITLE
    return Batch(scheduler, title, wanted, starts, "\n".join(_lines(site, wanted, run)), site.poll_s)


def _lines(site: Site, wanted: Workers, run: Path | None) -> list[str]:
    """Shell lines before a block's workers: what the site says, where their environment is, and when the block ends."""
    lines = [INIT.format(lines=site.worker_init.rstrip())] if site.worker_init.strip() else []
    if site.tunnel and wanted.nodes:
        lines.append(f"export {TUNNEL}={site.tunnel}")
    if site.environment == "packed" and wanted.nodes:
        file = packed.pack(run.parent) if run else Path("environment.tar")
        lines.append(packed.named(file, site.scheduler.BROADCAST if site.scheduler else ""))
    if site.inside and wanted.nodes:
        job = allocation()
        ends = None if job is None or job.ends is None else f"{job.ends:.0f}"
    else:
        ends = None if wanted.walltime_s is None else f"$(( $(date +%s) + {int(wanted.walltime_s)} ))"
    return lines if ends is None else [f"export STEERSMAN_BLOCK_ENDS={ends}", *lines]  # first: modules take their time


def _local(wanted: Workers, lines: Iterable[str], launcher: Any) -> LocalProvider:
    return _Local(
        nodes_per_block=max(1, wanted.nodes),
        init_blocks=wanted.blocks,
        min_blocks=wanted.blocks,
        max_blocks=wanted.blocks,
        worker_init="\n".join(lines),
        launcher=launcher,
    )


class _Local(LocalProvider):  # type: ignore[misc]  # Parsl has no types
    """This machine; asked every second whether its blocks live, which costs it next to nothing."""

    @property
    def status_polling_interval(self) -> int:
        return 1
