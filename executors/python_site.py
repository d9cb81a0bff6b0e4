"""A Python file with `config(run) -> parsl.Config` -> a site: for who wants to say all of Parsl's own words.

The executors labelled "simulation" and "training", and "scoring" if there is one, are used as they are given; the
folder of Parsl's logs is the run's, and blocks that bring no worker end the run as everywhere.
"""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider

from steersman.executors.errors import BadSite
from steersman.executors.executor import ROLES
from steersman.executors.registration import Registration
from steersman.executors.site import Site
from steersman.executors.threads import Threads
from steersman.executors.workers import Scorers, Trainers, Walkers
from steersman.system.errors import told
from steersman.system.node import LOOPBACK


def site(path: Path) -> Site:
    """The site that a file describes.

    Raises: BadSite: it cannot be run, has no `config`, or that returns something else than a site needs.
    """
    executors = _executors(str(path), _made(path, Path("run")))
    return Site(
        name=path.stem,
        parsl=str(path.absolute()),
        simulation=Walkers(workers=_slots(executors["simulation"])),
        training=Trainers(workers=_slots(executors["training"])),
        scoring=_scoring(executors["scoring"]) if "scoring" in executors else None,
    )


def _scoring(executor: Any) -> Scorers | Threads:
    if isinstance(executor, ThreadPoolExecutor):
        return Threads(threads=executor.max_threads or 1)
    return Scorers(workers=_slots(executor))


def config(site: Site, run: Path) -> Config:
    """Parsl's configuration for one run, with the executors that are used."""
    parsl_config = _made(Path(site.parsl), run)
    given = _executors(site.name, parsl_config)
    used = [given[role] for role in site.executors]
    for executor in filter(_has_blocks, used):
        executor.block_error_handler = Registration(site.name, silent_s=site.starts_s)
    said = {name: getattr(parsl_config, name) for name in inspect.signature(Config).parameters}
    return Config(**said | {"executors": used, "run_dir": str(run / "parsl"), "retries": 0})


def address(site: Site) -> str:
    """The address under which workers reach the driver, as the file gives it to an executor on other machines.

    Returns: "" if it gives none, loopback if all workers start on the driver's machine.
    """
    executors = _executors(site.name, _made(Path(site.parsl), Path("run")))
    blocks = filter(_has_blocks, (executors[role] for role in site.executors))
    away = [executor for executor in blocks if not isinstance(executor.provider, LocalProvider)]
    return next((str(executor.address) for executor in away if executor.address), "" if away else LOOPBACK)


def _made(path: Path, run: Path) -> Config:
    try:
        returned = runpy.run_path(str(path))["config"](run)
        if not isinstance(returned, Config):
            raise TypeError(f"it returns {type(returned).__name__}")
    except Exception as error:  # whatever a user's file may raise
        raise BadSite(
            str(path), f"it needs a function `config(run)` that returns a parsl.Config: {told(error)}"
        ) from error
    return returned


def _executors(name: str, parsl_config: Config) -> dict[str, Any]:
    """By label; one for scoring may be left out."""
    labelled = {executor.label: executor for executor in parsl_config.executors}
    for role in ("simulation", "training"):
        if role not in labelled:
            labels = ", ".join(labelled) or "none"
            raise BadSite(name, f"its executors are labelled {labels}; one with label={role!r} is needed")
    executors = {role: labelled[role] for role in ROLES if role in labelled}
    for role, executor in executors.items():
        if role == "scoring" and isinstance(executor, ThreadPoolExecutor):
            continue
        if not _has_blocks(executor) or isinstance(executor, MPIExecutor):
            raise BadSite(name, f"the executor {role!r} is a {type(executor).__name__}; walkers and trainings run in "
                                "processes: use HighThroughputExecutor")  # fmt: skip
        if _slots(executor) == 0:
            raise BadSite(name, f"the executor {role!r} has no number of workers; set max_workers_per_node=...")
    return executors


def _has_blocks(executor: Any) -> bool:
    return isinstance(executor, HighThroughputExecutor)


def _slots(executor: Any) -> int:
    """Workers at most; 0 where nothing limits them."""
    if executor.max_workers_per_node == float("inf"):
        return 0
    return int(executor.provider.max_blocks * executor.provider.nodes_per_block * executor.max_workers_per_node)
