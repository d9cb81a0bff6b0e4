"""The schedulers that there are, each a key of site files: a file of this folder each, and those of other packages.

A package of yours adds one by an entry point of the group `steersman.schedulers`: its name becomes the key, its object
is a subclass of `Scheduler`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, create_model

from steersman.executors import schedulers
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.values import Strict
from steersman.system.errors import told

GROUP = "steersman.schedulers"


def _found() -> tuple[dict[str, type[Scheduler]], dict[str, str]]:
    """By key; those first that may run within a job of another, for `scheduler_here` asks in this order.

    Returns: these, and what is wrong with those of other packages that cannot be used: sites without them still can.
    """
    for _, name, _ in iter_modules(schedulers.__path__):
        if name != "registry":
            import_module(f"{schedulers.__name__}.{name}")
    found = {each.__module__.rpartition(".")[2]: each for each in Scheduler.__subclasses__()}
    unusable = {}
    for entry in entry_points(group=GROUP):
        try:
            if found.pop(entry.name, None) or entry.name in unusable:
                raise ValueError("there is another scheduler of this name; give this one another, or uninstall it")
            found[entry.name] = _loaded(entry)
        except Exception as error:  # another package's code may raise anything
            unusable[entry.name] = f"{entry.value} cannot be used: {told(error)}"
    return dict(sorted(found.items(), key=lambda item: (not item[1].WITHIN, item[0]))), unusable


def _loaded(entry: EntryPoint) -> type[Scheduler]:
    kind = entry.load()
    if not (isinstance(kind, type) and issubclass(kind, Scheduler)):
        raise TypeError(f"it is no subclass of {Scheduler.__module__}.Scheduler")
    if lacks := kind.lacks():
        raise TypeError(f"it lacks {', '.join(lacks)}, which {Scheduler.__module__} describes")
    return kind


def _refused(problem: str) -> Any:
    """The type of a key that no value fits."""

    def refuse(value: object) -> None:
        raise ValueError(problem)

    return Annotated[Any, BeforeValidator(refuse)]


SCHEDULERS, UNUSABLE = _found()


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
        "Schedulers",
        __base__=_Named,
        **{key: (_refused(problem), None) for key, problem in UNUSABLE.items()},
        **{key: (kind | None, None) for key, kind in SCHEDULERS.items()},
    )


def scheduler_here(environment: Mapping[str, str] = os.environ) -> type[Scheduler] | None:
    """Whose job this process runs in; None outside of any."""
    return next((each for each in SCHEDULERS.values() if each.IN_JOB in environment), None)
