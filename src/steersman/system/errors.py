"""What can be wrong, whatever the room: the base of the errors, and what a person wrote wrong.

EngineError               anything that Steersman reports: the base of every room's errors; exit status 4
├── DamagedFile           a file of a run is not as Steersman wrote it; exit status 6
├── StageExited           a user's function called sys.exit()
├── MissingExtra          an optional package is not installed
└── BadInput              something the user wrote; exit status 2
    ├── UnknownName       a key, workflow or site that does not exist, with the nearest that does
    ├── BadValue          a parameter of the wrong type or out of range
    └── BadRequest        something that cannot be done as it was asked for
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import dataclass_transform


@dataclass_transform(eq_default=False)
class EngineError(Exception):
    """An error whose subclasses only annotate their fields, in the order of the arguments, and give `__str__`.

    It survives pickle: one that does not kills the thread of a Parsl executor that hands results back.

    Attributes:
        exit_status: what the command line ends with, see `EXIT_CODES` in cli/__main__.py.
    """

    exit_status = 4  # without an annotation: no field

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def __post_init__(self) -> None:
        self.args = tuple(vars(self).values())  # what pickle and copy make it from again


def told(error: BaseException) -> str:
    """An error by its class and its text; that of a user's own class may fail itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as failed:
        return f"{type(error).__name__} (its text cannot be made: {type(failed).__name__})"


def place(error: BaseException) -> str:
    """Where it was raised: ` (workflow.py, line 12)`."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""


class DamagedFile(EngineError):
    """A file of a run is not as Steersman wrote it."""

    exit_status = 6


class StageExited(EngineError):
    code: str

    def __str__(self) -> str:
        return f"it called sys.exit({self.code}); a stage must return, or raise an exception"


class MissingExtra(EngineError, ImportError):
    package: str
    extra: str

    def __str__(self) -> str:
        return f"{self.package} is not installed; pip install 'steersman[{self.extra}]'"


class BadInput(EngineError, ValueError):
    """Something the user wrote."""

    exit_status = 2


class UnknownName(BadInput):
    what: str
    name: str
    valid: Collection[str]

    def __post_init__(self) -> None:
        self.valid = tuple(self.valid)  # the keys of a dict cannot be pickled
        super().__post_init__()

    def __str__(self) -> str:
        if not self.valid:
            return f"there is no {self.what} {self.name!r}; there is none at all"
        valid = sorted(map(str, self.valid))
        near = difflib.get_close_matches(str(self.name), valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"there is no {self.what} {self.name!r}; {hint}Valid: {', '.join(valid)}"


class BadValue(BadInput):
    name: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.problem}"


class BadRequest(BadInput):
    problem: str

    def __str__(self) -> str:
        return self.problem
