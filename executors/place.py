"""Where and how a run is run: the options that every call shares which begins or continues one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

from steersman.executors import site_files
from steersman.executors.site import Site
from steersman.system.errors import UnknownName

OF_RUN = ("seed", "rounds")  # what the check of a site has no need of


class Place(TypedDict, total=False):
    """The site of a run, what is different there, its seed and its order.

    Args:
        site: a name or the path of a file; None: of a new run that of the environment variable STEERSMAN_SITE, or
            "laptop"; of one that exists its own.
        workers: slots for walkers.
        nodes: of a block.
        walltime: of the blocks: 90s, 30m, 2h, 02:00:00.
        account, queue: of the scheduler.
        inside: run in the present job, on its nodes.
        seed: None: a random one.
        rounds: synchronous order; the seed then reproduces the run bit for bit.
        site_changes: further keys of a site file: "simulation.gpus", "lease_s".
    """

    site: str | None
    workers: int | None
    nodes: int | None
    walltime: str | None
    account: str | None
    queue: str | None
    inside: bool
    seed: int | None
    rounds: bool
    site_changes: Mapping[str, Any]


def changes(place: Place) -> dict[str, Any]:
    """What is different at the site, by the keys of a site file.

    Raises: BadValue: a walltime that is none. UnknownName: an option that there is not, for nobody else looks at names.
    """
    for name in place:
        if name not in Place.__annotations__:
            raise UnknownName("option", name, Place.__annotations__)
    walltime = place.get("walltime")
    given = {
        "simulation.workers": place.get("workers"),
        "simulation.nodes": place.get("nodes"),
        "walltime_s": None if walltime is None else site_files.walltime_s(walltime),
        "account": place.get("account"),
        "inside": place.get("inside") or None,
        "queue": place.get("queue"),
        **place.get("site_changes", {}),
    }
    return {key: value for key, value in given.items() if value is not None}


def site_name(place: Place) -> str:
    """The site of a new run."""
    return place.get("site") or os.environ.get("STEERSMAN_SITE") or "laptop"


def site_of(place: Place) -> Site:
    """The same, as it is there. Raises: BadInput: there is none, or a key or a value is wrong."""
    return site_files.load_site(site_name(place), changes(place))
