"""What can go wrong in the store.

StoreError
├── BadVariable       a name or a kind of value that cannot be stored
├── MissingVariable   a variable was asked for that no frame has
├── DamagedShard      bytes are no longer those that were written
└── DamagedGroup      what describes a walker's arrays is none that was written
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steersman.system.errors import BadInput, DamagedFile, EngineError

MASKED = "some of its values are masked, and a mask is not stored; give these a value, and the mask as a variable"


class StoreError(EngineError):
    """Anything the store reports."""

    def __init__(self, text: str, **values: Any) -> None:
        super().__init__(text, **values)


class BadVariable(StoreError, ValueError):
    variable: str
    problem: str

    def __str__(self) -> str:
        return f"variable {self.variable!r}: {self.problem}"


class MissingVariable(StoreError, BadInput, KeyError):
    variable: str
    stored: str

    def __str__(self) -> str:
        return f"there is no variable {self.variable!r}; stored variables: {self.stored}"


class DamagedShard(StoreError, DamagedFile, ValueError):
    path: str

    def __str__(self) -> str:
        what = "its content differs from what was written" if Path(self.path).exists() else "it is missing"
        return f"{self.path}: {what}; see `steersman verify RUN --repair`"


class DamagedGroup(StoreError, DamagedFile, ValueError):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: this describes no arrays of a run: {self.problem}; see `steersman verify RUN`"


def shape_mismatch(variable: str, expected: str, got: str) -> BadVariable:
    return BadVariable(
        variable,
        f"a row of {expected} was expected, as the first was, {got} came; the frames of a run, and the scores of a "
        "model, keep their variables, shapes and dtypes",
    )


def missing_frame(walker: str, row: int, rows: int) -> StoreError:
    return StoreError(
        "walker {walker} has {rows} published frames, so there is no row {row}", walker=walker, rows=rows, row=row
    )
