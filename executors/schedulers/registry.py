"""The schedulers that there are, each a key of site files: a file of this folder each, and those of other packages.

A package of yours adds one by an entry point of the group `steersman.schedulers`: its name becomes the key, its object
is a subclass of `Scheduler`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, create_model

from steersman.executors import schedulers
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.values import Strict
from steersman.system.registry import Others, subclasses


def _check(kind: type[Scheduler]) -> None:
    if not issubclass(kind, Scheduler):
        raise TypeError(f"it is no subclass of {Scheduler.__module__}.Scheduler")
    if lacks := kind.lacks():
        raise TypeError(f"it lacks {', '.join(lacks)}, which {Scheduler.__module__} describes")


def _refused(problem: str) -> Any:
    """The type of a key that no value fits."""

    def refuse(value: object) -> None:
        raise ValueError(problem)

    return Annotated[Any, BeforeValidator(refuse)]


class _Named(Strict):
    """Keys of a site file that name a scheduler, with its settings."""

    @property
    def named(self) -> list[Scheduler]:
        """Those that are keys; a site has one at most."""
        return [settings for _, settings in self if isinstance(settings, Scheduler)]


_ALL: list[type[Scheduler]] = subclasses(schedulers.__name__, Scheduler)  # type: ignore[type-abstract]
_OURS = {each.__module__.rpartition(".")[2]: each for each in _ALL}
_OTHERS, _UNUSABLE = Others("steersman.schedulers", taken={*_OURS, *dir(_Named)}, check=_check).loaded()
# Those first that may run within a job of another, for `scheduler_here` asks in this order.
SCHEDULERS: dict[str, type[Scheduler]] = dict(
    sorted((_OURS | _OTHERS).items(), key=lambda item: (not item[1].WITHIN, item[0]))
)


if TYPE_CHECKING:
    Schedulers = _Named
else:
    Schedulers = create_model(
        "Schedulers",
        __base__=_Named,
        **{key: (_refused(problem), None) for key, problem in _UNUSABLE.items()},
        **{key: (kind | None, None) for key, kind in SCHEDULERS.items()},
    )


def scheduler_here(environment: Mapping[str, str] = os.environ) -> type[Scheduler] | None:
    """Whose job this process runs in; None outside of any."""
    return next((each for each in SCHEDULERS.values() if each.IN_JOB in environment), None)
