"""Site file -> Parsl configuration: where a run's walkers, training and scoring execute."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher, WrappedLauncher
from parsl.providers import LocalProvider
from pydantic import BaseModel, ConfigDict, Field

import steersman.site_configs

ROLES = ("simulation", "training")
SHIPPED = Path(steersman.site_configs.__file__).parent
ONE_THREAD = "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OPENMM_CPU_THREADS=1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Executor(_Strict):
    """Worker processes of one kind.

    Args:
        workers: processes, one slot each; "cores" for one on each core of the machine.
        gpus: GPUs that the workers share, one each in turn.
        blocks: so many times the above, each in its own allocation.
        walltime_s: a block is ended after this, and another takes its place; None: blocks do not end.
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = "cores"
    gpus: int = Field(default=0, ge=0)
    blocks: int = Field(default=1, ge=1)
    walltime_s: float | None = Field(default=None, gt=0)

    @property
    def per_block(self) -> int:
        return len(os.sched_getaffinity(0)) if self.workers == "cores" else self.workers

    @property
    def count(self) -> int:
        return self.per_block * self.blocks


class Site(_Strict):
    """A machine.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train and score; two let scoring go on beside a training.
        worker_init: shell lines run before the workers start.
        lease_s: a start is offered again when its walker gave no sign of life for so long.
        margin_s: before a block ends, this much is kept for writing what there is.
    """

    name: str
    simulation: Executor = Executor()
    training: Executor = Executor(workers=2)
    worker_init: str = ""
    lease_s: float = Field(default=15.0, ge=1)
    margin_s: float = Field(default=30.0, ge=0)


def sites() -> dict[str, Path]:
    """The site files that come with Steersman, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = yaml.safe_load(path.read_text()) or {}
    return {"name": path.stem, **loaded}


def parsl_config(site: Site, run_directory: Path, roles: Iterable[str] = ROLES) -> Config:
    """Parsl's configuration for one run on this machine."""
    # Parsl starts `interchange.py` and `process_worker_pool.py` by name: they lie beside this interpreter.
    binaries = str(Path(sys.executable).parent)
    if binaries not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = binaries + os.pathsep + os.environ["PATH"]
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
    ends, drain_s = "", None
    launcher = SimpleLauncher()
    if wanted.walltime_s is not None:
        ends = f"export STEERSMAN_BLOCK_ENDS=$(( $(date +%s) + {int(wanted.walltime_s)} ))"
        drain_s = max(1, int(wanted.walltime_s - site.margin_s))
        launcher = WrappedLauncher(f"timeout --signal=KILL {int(wanted.walltime_s)}")  # as a scheduler would
    return HighThroughputExecutor(
        label=role,
        address="127.0.0.1",
        loopback_address="127.0.0.1",
        max_workers_per_node=wanted.per_block,
        cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
        available_accelerators=wanted.gpus or [],
        heartbeat_period=2,  # a lost worker is known of within 8 s
        heartbeat_threshold=8,
        poll_period=10,
        drain_period=drain_s,
        block_error_handler=False,  # a block that fails is replaced, however many did before
        provider=_Local(
            init_blocks=wanted.blocks,
            min_blocks=wanted.blocks,
            max_blocks=wanted.blocks,
            worker_init=f"{ONE_THREAD}\n{ends}\n{site.worker_init}",
            launcher=launcher,
        ),
    )


class _Local(LocalProvider):  # type: ignore[misc]  # Parsl has no types
    """This machine; asked every second whether its blocks live, which costs it next to nothing."""

    @property
    def status_polling_interval(self) -> int:
        return 1
