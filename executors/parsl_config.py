"""Site -> Parsl's configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher, WrappedLauncher
from parsl.providers import LocalProvider

from steersman.executors import slurm
from steersman.executors.network import driver_address
from steersman.executors.site import ROLES, Executor, Site

BINARIES = str(Path(sys.executable).parent)  # interchange.py and process_worker_pool.py lie beside this interpreter
ONE_THREAD = "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OPENMM_CPU_THREADS=1"


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


def _executor(site: Site, role: str) -> HighThroughputExecutor:
    wanted: Executor = getattr(site, role)
    return HighThroughputExecutor(
        label=role,
        address=driver_address(site),
        loopback_address="127.0.0.1",
        max_workers_per_node=wanted.per_node,
        cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
        available_accelerators=wanted.gpus or [],
        heartbeat_period=2,  # a lost worker is known of within 8 s
        heartbeat_threshold=8,
        poll_period=10,
        drain_period=None if wanted.walltime_s is None else max(1, int(wanted.walltime_s - site.margin_s)),
        block_error_handler=False,  # a block that fails is replaced, however many did before
        provider=_provider(site, wanted),
    )


def _provider(site: Site, wanted: Executor) -> Any:
    lines = [f"export PATH={BINARIES}:$PATH", ONE_THREAD, site.worker_init]
    if wanted.walltime_s is not None:
        lines.append(f"export STEERSMAN_BLOCK_ENDS=$(( $(date +%s) + {int(wanted.walltime_s)} ))")
    if wanted.nodes:
        return slurm.provider(site, wanted, "\n".join(lines))
    ends = wanted.walltime_s is not None
    return _Local(
        init_blocks=wanted.blocks,
        min_blocks=wanted.blocks,
        max_blocks=wanted.blocks,
        worker_init="\n".join(lines),
        # A time limit is kept as a scheduler would keep it.
        launcher=WrappedLauncher(f"timeout --signal=KILL {int(wanted.walltime_s or 0)}") if ends else SimpleLauncher(),
    )


class _Local(LocalProvider):  # type: ignore[misc]  # Parsl has no types
    """This machine; asked every second whether its blocks live, which costs it next to nothing."""

    @property
    def status_polling_interval(self) -> int:
        return 1
