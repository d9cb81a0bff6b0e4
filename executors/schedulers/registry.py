"""The schedulers that there are, each a key of site files: a file of this folder each, and those of other packages.

A package of yours adds one by an entry point of the group `steersman.schedulers`: its name becomes the key, its object
is a subclass of `Scheduler`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from pydantic import create_model

from steersman.executors import schedulers
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.values import Strict

GROUP = "steersman.schedulers"


def _found() -> dict[str, type[Scheduler]]:
    """By key; those first that may run within a job of another, for `scheduler_here` asks in this order."""
    for _, name, _ in iter_modules(schedulers.__path__):
        if name != "registry":
            import_module(f"{schedulers.__name__}.{name}")
    found = {each.__module__.rpartition(".")[2]: each for each in Scheduler.__subclasses__()}
    found |= {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    return dict(sorted(found.items(), key=lambda item: (not item[1].WITHIN, item[0])))


SCHEDULERS = _found()


class _Named(Strict):
    """Keys of a site file that name a scheduler, with its settings."""

    @property
    def named(self) -> list[Scheduler]:
        """Those that are keys; a site has one at most."""
        return [settings for _, settings in self if isinstance(settings, Scheduler)]


if TYPE_CHECKING:
    Schedulers = _Named
else:
    Schedulers = create_model(
        "Schedulers", __base__=_Named, **{key: (kind | None, None) for key, kind in SCHEDULERS.items()}
    )


def scheduler_here(environment: Mapping[str, str] = os.environ) -> type[Scheduler] | None:
    """Whose job this process runs in; None outside of any."""
    return next((each for each in SCHEDULERS.values() if each.IN_JOB in environment), None)
