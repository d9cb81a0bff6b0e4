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
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = "cores"
    gpus: int = Field(default=0, ge=0)

    @property
    def count(self) -> int:
        return len(os.sched_getaffinity(0)) if self.workers == "cores" else self.workers


class Site(_Strict):
    """A machine.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train and score; two let scoring go on beside a training.
        worker_init: shell lines run before the workers start.
    """

    name: str
    simulation: Executor = Executor()
    training: Executor = Executor(workers=2)
    worker_init: str = ""


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
        strategy="none",
        retries=0,  # the engine itself decides what is run again
        usage_tracking=0,
        initialize_logging=True,
    )


def _executor(site: Site, role: str) -> HighThroughputExecutor:
    wanted: Executor = getattr(site, role)
    return HighThroughputExecutor(
        label=role,
        address="127.0.0.1",
        loopback_address="127.0.0.1",
        max_workers_per_node=wanted.count,
        cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
        available_accelerators=wanted.gpus or [],
        heartbeat_period=2,  # a lost worker is known of within 8 s
        heartbeat_threshold=8,
        poll_period=10,
        provider=LocalProvider(
            init_blocks=1, min_blocks=1, max_blocks=1, worker_init=f"{ONE_THREAD}\n{site.worker_init}"
        ),
    )
