"""Site -> Parsl's configuration, and the script that a block is submitted with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor, ThreadPoolExecutor
from parsl.launchers import WrappedLauncher
from parsl.providers import LocalProvider
from parsl.providers.errors import SubmitException

from steersman.executors import globus, python_site, schedulers
from steersman.executors.allocation import allocation
from steersman.executors.executor import Executor, Mpi
from steersman.executors.launcher import BINARIES, ONE_THREAD, ONE_THREAD_EACH, launcher
from steersman.executors.network import driver_address
from steersman.executors.registration import Registration
from steersman.executors.site import Site
from steersman.executors.together import Share, SideBySide, Together

NICE = 10  # of workers on the driver's machine


def parsl_config(site: Site, run_directory: Path) -> Config:
    """Parsl's configuration for one run."""
    if BINARIES not in os.environ["PATH"].split(os.pathsep):  # Parsl starts its own programs by name
        os.environ["PATH"] = BINARIES + os.pathsep + os.environ["PATH"]
    if site.driver_threads:  # as on workers, where more than one thread waits for walkers' cores
        os.environ.update(ONE_THREAD_EACH)
    if site.parsl:
        return python_site.config(site, run_directory.parent)
    executors = [_processes(site, role, given) for role, given in providers(site).items()]
    executors += [globus.executor(site, role) for role in site.endpoints]
    if site.driver_threads:
        executors.append(Threads("scoring", site.driver_threads, thread_name_prefix="scoring"))
    return Config(
        executors=executors,
        run_dir=str(run_directory),
        strategy="simple",  # a block that ended or died is replaced
        strategy_period=1,
        retries=0,  # the engine itself decides what is run again
        usage_tracking=0,
        initialize_logging=True,
    )


def submit_scripts(site: Site) -> dict[str, str]:
    """The script with which a block of each executor is given to a scheduler; files of the run lie in $RUN."""
    if site.inside:
        return {}
    with_nodes = [role for role, wanted in site.executors.items() if wanted.nodes]
    if site.shares:
        return {" and ".join(with_nodes): _script(_together(site).provider, "together")}
    return {role: _script(provider(site, role), role) for role in with_nodes}


def _script(written: Any, name: str) -> str:
    with TemporaryDirectory() as folder:
        written.script_dir = folder
        written.execute_wait = lambda *_: (1, "", "")  # it is written, and not submitted
        with contextlib.suppress(SubmitException):
            command = "$RUN/together" if name == "together" else "process_worker_pool.py ..."
            written.submit(command, 1, f"steersman.{name}")
        return next(Path(folder).iterdir()).read_text().replace(folder, "$RUN")


def _processes(site: Site, role: str, given: Any) -> HighThroughputExecutor:
    wanted: Executor = getattr(site, role)
    shared = {
        "label": role,
        "address": driver_address(site),
        "loopback_address": "127.0.0.1",
        "heartbeat_period": 2,  # a lost worker is known of within 8 s
        "heartbeat_threshold": 8,
        "poll_period": 10,
        "drain_period": None if wanted.walltime_s is None else max(1, int(wanted.walltime_s - site.margin_s)),
        "block_error_handler": Registration(site.name, silent_s=site.starts_s),
        "provider": given,
    }
    if wanted.mpi:
        return OverNodes(wanted.mpi, max_workers_per_block=wanted.per_block, **shared)
    return HighThroughputExecutor(
        max_workers_per_node=wanted.per_node,
        cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
        available_accelerators=wanted.gpu_names,
        cpu_affinity=wanted.binding,
        **shared,
    )


class Threads(ThreadPoolExecutor):  # type: ignore[misc]  # Parsl has no types
    """Parsl's executor of threads; at the end one that hangs is not waited for."""

    def shutdown(self, block: bool = False) -> None:
        super().shutdown(block=False)


class OverNodes(MPIExecutor):  # type: ignore[misc]  # Parsl has no types
    """Parsl's executor of MPI programs.

    Attributes:
        resources: what each job of it asks for.
    """

    def __init__(self, mpi: Mpi, **shared: Any) -> None:
        super().__init__(mpi_launcher=mpi.launcher, **shared)
        self.resources = {"num_nodes": mpi.nodes, "ranks_per_node": mpi.ranks, "launcher_options": mpi.options}


def providers(site: Site) -> dict[str, Any]:
    """What gives Parsl the blocks of each executor that has some."""
    with_blocks = {role: wanted for role, wanted in site.executors.items() if wanted.has_blocks}
    if site.inside or not site.shares:
        return {role: provider(site, role) for role in with_blocks}
    jobs = _together(site)
    return {
        role: Share(jobs, role, wanted, launcher(site, role)) if wanted.nodes else provider(site, role)
        for role, wanted in with_blocks.items()
    }


def _together(site: Site) -> Together:
    sharing = {role: wanted for role, wanted in site.executors.items() if wanted.nodes}
    nodes = sum(wanted.nodes for wanted in sharing.values())
    whole = next(iter(sharing.values())).model_copy(update={"nodes": nodes})
    lines = _lines(site, whole)
    return Together(schedulers.of(site).provider(site, whole, SideBySide(list(sharing)), "\n".join(lines)))


def provider(site: Site, role: str) -> Any:
    """What gives Parsl the blocks of one executor that has its own."""
    wanted: Executor = getattr(site, role)
    lines = _lines(site, wanted)
    if site.inside and wanted.nodes:
        return _local(wanted, lines, launcher(site, role))
    if wanted.nodes:
        return schedulers.of(site).provider(site, wanted, launcher(site, role), "\n".join(lines))
    # What computes makes way for driver and bus, whose work is short; a time limit is kept as by a scheduler.
    limit = "" if wanted.walltime_s is None else f" timeout --signal=KILL {int(wanted.walltime_s)}"
    starts = WrappedLauncher(f"nice -n {NICE}{limit}")
    # A shell in which the driver is started may outlive the job that it began in.
    return _local(wanted, [f"export PATH={BINARIES}:$PATH", ONE_THREAD, "unset SLURM_JOB_END_TIME", *lines], starts)


def _lines(site: Site, wanted: Executor) -> list[str]:
    """Shell lines before a block's workers, the last of which says when it ends."""
    if site.inside and wanted.nodes:
        found = allocation()
        ends = None if found is None or found.ends is None else f"{found.ends:.0f}"
    else:
        ends = None if wanted.walltime_s is None else f"$(( $(date +%s) + {int(wanted.walltime_s)} ))"
    return [site.worker_init] if ends is None else [site.worker_init, f"export STEERSMAN_BLOCK_ENDS={ends}"]


def _local(wanted: Executor, lines: Iterable[str], launcher: Any) -> LocalProvider:
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
