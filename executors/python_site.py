"""A Python file with `config(run) -> parsl.Config` -> a site: for who wants to say all of Parsl's own words.

The executors labelled "simulation" and "training" are used as they are given; the folder of Parsl's logs is the run's,
and blocks that bring no worker end the run as everywhere.
"""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor
from parsl.providers import LocalProvider

from steersman.executors.errors import BadSite
from steersman.executors.network import LOOPBACK
from steersman.executors.registration import Registration
from steersman.executors.site import ROLES, Executor, Site, Training


def site(path: Path) -> Site:
    """The site that a file describes.

    Raises: BadSite: it cannot be run, has no `config`, or that returns something else than a site needs.
    """
    executors = _executors(str(path), _made(path, Path("run")), ROLES)
    slots = {role: _slots(executor) for role, executor in executors.items()}
    return Site(
        name=path.stem, parsl=str(path.absolute()), simulation=Executor(workers=slots["simulation"]),
        training=Training(workers=slots["training"]),
    )  # fmt: skip


def config(site: Site, run: Path, roles: Sequence[str]) -> Config:
    """Parsl's configuration for one run, with the executors of these roles only."""
    made = _made(Path(site.parsl), run)
    executors = _executors(site.name, made, roles)
    for executor in executors.values():
        executor.block_error_handler = Registration(site.name)
    said = {name: getattr(made, name) for name in inspect.signature(Config).parameters}
    return Config(**said | {"executors": list(executors.values()), "run_dir": str(run / "parsl"), "retries": 0})


def address(site: Site) -> str:
    """The address under which workers reach the driver, as the file gives it to an executor on other machines.

    Returns: "" if it gives none, loopback if all workers start on the driver's machine.
    """
    executors = _executors(site.name, _made(Path(site.parsl), Path("run")), ROLES).values()
    away = [executor for executor in executors if not isinstance(executor.provider, LocalProvider)]
    return next((str(executor.address) for executor in away if executor.address), "" if away else LOOPBACK)


def _made(path: Path, run: Path) -> Config:
    try:
        function = runpy.run_path(str(path)).get("config")
    except OSError as error:
        raise BadSite(str(path), f"cannot be read: {error.strerror}") from None
    except Exception as error:  # whatever a user's file may raise
        raise BadSite(str(path), f"it cannot be run: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise BadSite(str(path), "it has no function `config(run)` that returns a parsl.Config")
    try:
        made = function(run)
    except Exception as error:  # likewise
        raise BadSite(str(path), f"config(run) fails: {type(error).__name__}: {error}") from error
    if not isinstance(made, Config):
        raise BadSite(str(path), f"config(run) returns {type(made).__name__}, not a parsl.Config")
    return made


def _executors(name: str, made: Config, roles: Sequence[str]) -> dict[str, HighThroughputExecutor]:
    labelled = {executor.label: executor for executor in made.executors}
    for role in roles:
        if role not in labelled:
            found = ", ".join(labelled) or "none"
            raise BadSite(name, f"its executors are labelled {found}; one with label={role!r} is needed")
        if not isinstance(labelled[role], HighThroughputExecutor) or isinstance(labelled[role], MPIExecutor):
            kind = type(labelled[role]).__name__
            raise BadSite(name, f"the executor {role!r} is a {kind}; walkers and trainings are processes of their own: "
                                "use HighThroughputExecutor")  # fmt: skip
        if _slots(labelled[role]) == 0:
            raise BadSite(
                name, f"the executor {role!r}: say how many walkers it has room for, max_workers_per_node=..."
            )
    return {role: labelled[role] for role in roles}


def _slots(executor: Any) -> int:
    """Workers at most; 0 where nothing limits them."""
    if executor.max_workers_per_node == float("inf"):
        return 0
    return int(executor.provider.max_blocks * executor.provider.nodes_per_block * executor.max_workers_per_node)
