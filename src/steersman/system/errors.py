"""What can be wrong, whatever the room. A class is for what somebody catches, or for an exit status.

EngineError               anything that Steersman reports; exit status 4
├── DamagedFile           a file of a run is not as Steersman wrote it; exit status 6
├── MissingExtra          an optional package is not installed
└── BadInput              something the user wrote, or asked for; exit status 2
    ├── UnknownName       a key, workflow or site that does not exist, with the nearest that does
    └── BadValue          a parameter of the wrong type or out of range, with what is allowed
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, dataclass_transform


@dataclass_transform(eq_default=False)
class EngineError(Exception):
    """What is wrong, in a text that names its values: `EngineError("{path} has {rows} rows", path=path, rows=3)`.

    A subclass may annotate its values instead, in the order of the arguments, and give `__str__`; without it the text
    is `value: value`. It survives pickle: one that does not kills the thread of a Parsl executor that gets results.

    Attributes:
        values: those that the text names.
        exit_status: what the command line ends with, see `EXIT_CODES` in cli/__main__.py.
    """

    exit_status = 4  # without an annotation: no field

    def __init__(self, text: str, **values: Any) -> None:
        self.values = values
        super().__init__(text.format_map(values) if values else text)

    def __init_subclass__(cls) -> None:
        if "__init__" not in vars(cls):
            dataclass(eq=False)(cls)

    def __post_init__(self) -> None:
        self.args = tuple(vars(self).values())  # what pickle and copy make it from again

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))


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

    def __init__(self, text: str, **values: Any) -> None:
        super().__init__(text, **values)


class MissingExtra(EngineError, ImportError):
    package: str
    extra: str

    def __str__(self) -> str:
        return f"{self.package} is not installed; pip install 'steersman[{self.extra}]'"


class BadInput(EngineError, ValueError):
    """Something the user wrote, or asked for."""

    exit_status = 2

    def __init__(self, text: str, **values: Any) -> None:
        super().__init__(text, **values)


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
    value: object
    problem: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.problem}"
