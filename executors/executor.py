"""What does the work of a role: worker processes, a Globus Compute endpoint, or threads of the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from steersman.executors.values import ShellWord, Strict

ROLES = ("simulation", "training", "scoring", "labelling")
Gpus = Annotated[int, Field(ge=0)] | tuple[ShellWord, ...]
# Runs of earlier versions wrote down all of these, whatever the type; what is none of its keys says nothing.
EARLIER = {"workers", "gpus", "affinity", "scratch", "mpi", "nodes", "blocks", "walltime_s"}


class Executor(Strict, ABC):
    """Settings of a site file for one role."""

    in_driver: ClassVar[bool] = False  # then what hangs cannot be ended, and what crashes takes the driver with it

    @model_validator(mode="before")
    @classmethod
    def _what_says_nothing_is_left_out(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not given.keys() >= EARLIER:
            return given
        return {key: value for key, value in given.items() if key in cls.model_fields}

    @property
    @abstractmethod
    def gpus_held(self) -> int:
        """GPUs while a run is under way."""


class Blockless(Executor):
    """An executor that needs no blocks, and of its site only the name."""

    KEY: ClassVar[str]  # the key that makes it one of these, and no worker processes

    @abstractmethod
    def where(self) -> str:
        """In words where it does its work."""

    @abstractmethod
    def parsl(self, site: str, role: str) -> Any:
        """The executor that it is for Parsl. Raises: BadSite."""

    def look(self, site: str) -> str:
        """What is found when it is looked at before a run; "" if there is nothing to look at. Raises: BadSite."""
        return ""


def names(gpus: int | tuple[str, ...]) -> tuple[str, ...]:
    """GPUs of a node, by name."""
    return tuple(map(str, range(gpus))) if isinstance(gpus, int) else gpus
