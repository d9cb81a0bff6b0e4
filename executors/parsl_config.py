"""Site -> Parsl's configuration, and the script that a block is submitted with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor
from parsl.launchers import SimpleLauncher, WrappedLauncher
from parsl.providers import LocalProvider
from parsl.providers.errors import SubmitException

from steersman.executors import schedulers
from steersman.executors.allocation import allocation
from steersman.executors.launcher import BINARIES, ONE_THREAD, launcher
from steersman.executors.network import driver_address
from steersman.executors.registration import Registration
from steersman.executors.site import ROLES, Executor, Mpi, Site


def parsl_config(site: Site, run_directory: Path, roles: Iterable[str] = ROLES) -> Config:
    """Parsl's configuration for one run."""
    if BINARIES not in os.environ["PATH"].split(os.pathsep):  # Parsl starts its own programs by name
        os.environ["PATH"] = BINARIES + os.pathsep + os.environ["PATH"]
    return Config(
        executors=[_executor(site, role) for role in roles],
        run_dir=str(run_directory),
        strategy="simple",  # a block that ended or died is replaced
        strategy_period=1,
        retries=0,  # the engine itself decides what is run again
        usage_tracking=0,
        initialize_logging=True,
    )


def submit_script(site: Site, role: str) -> str:
    """The script with which a block of one executor is submitted; files of the run lie in $RUN."""
    written = provider(site, getattr(site, role))
    with TemporaryDirectory() as folder:
        written.script_dir = folder
        written.execute_wait = lambda *_: (1, "", "")  # it is written, and not submitted
        with contextlib.suppress(SubmitException):
            written.submit("process_worker_pool.py ...", 1, f"steersman.{role}")
        return next(Path(folder).iterdir()).read_text().replace(folder, "$RUN")


def _executor(site: Site, role: str) -> HighThroughputExecutor:
    wanted: Executor = getattr(site, role)
    shared = {
        "label": role,
        "address": driver_address(site),
        "loopback_address": "127.0.0.1",
        "heartbeat_period": 2,  # a lost worker is known of within 8 s
        "heartbeat_threshold": 8,
        "poll_period": 10,
        "drain_period": None if wanted.walltime_s is None else max(1, int(wanted.walltime_s - site.margin_s)),
        "block_error_handler": Registration(site.name),
        "provider": provider(site, wanted),
    }
    if wanted.mpi:
        return OverNodes(wanted.mpi, max_workers_per_block=wanted.per_block, **shared)
    return HighThroughputExecutor(
        max_workers_per_node=wanted.per_node,
        cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
        available_accelerators=wanted.gpu_names,
        cpu_affinity=wanted.affinity,
        **shared,
    )


class OverNodes(MPIExecutor):  # type: ignore[misc]  # Parsl has no types
    """Parsl's executor of MPI programs.

    Attributes:
        resources: what each job of it asks for.
    """

    def __init__(self, mpi: Mpi, **shared: Any) -> None:
        super().__init__(mpi_launcher=mpi.launcher, **shared)
        self.resources = {"num_nodes": mpi.nodes, "ranks_per_node": mpi.ranks, "launcher_options": mpi.options}


def provider(site: Site, wanted: Executor) -> Any:
    """What gives Parsl the blocks of one executor."""
    lines = [site.worker_init]
    if site.inside and wanted.nodes:
        found = allocation()
        assert found is not None  # the site is settled
        ends = None if found.ends is None else f"export STEERSMAN_BLOCK_ENDS={found.ends:.0f}"
        return _local(wanted, [*lines, ends or ""], launcher(site, wanted, found.scheduler))
    if wanted.walltime_s is not None:
        lines.append(f"export STEERSMAN_BLOCK_ENDS=$(( $(date +%s) + {int(wanted.walltime_s)} ))")
    if wanted.nodes:
        return schedulers.of(site).provider(site, wanted, "\n".join(lines))
    # A time limit is kept as a scheduler would keep it.
    limit_s = wanted.walltime_s
    starts = SimpleLauncher() if limit_s is None else WrappedLauncher(f"timeout --signal=KILL {int(limit_s)}")
    return _local(wanted, [f"export PATH={BINARIES}:$PATH", ONE_THREAD, *lines], starts)


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
