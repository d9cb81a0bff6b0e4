"""What can go wrong in the store.

StoreError
├── ShapeMismatch     a row does not fit its variable
├── BadVariable       a name or a kind of value that cannot be stored
├── MissingVariable   a variable was asked for that no frame has
├── MissingFrame      a frame was asked for that is not there
├── MergeFailed       groups of walkers could not become one; they stay
├── DamagedShard      bytes are no longer those that were written
├── DamagedGroup      what describes a walker's arrays is none that was written
└── EmptyWindow       a window holds no frame
"""

from __future__ import annotations

from pathlib import Path

from steersman.system.errors import BadInput, DamagedFile, EngineError

MASKED = "some of its values are masked, and a mask is not stored; give these a value, and the mask as a variable"


class StoreError(EngineError):
    """Anything the store reports."""


class ShapeMismatch(StoreError, ValueError):
    variable: str
    expected: str
    got: str

    def __str__(self) -> str:
        return (
            f"variable {self.variable!r}: a row of {self.expected} was expected, as the first was, {self.got} came; "
            "the frames of a run, and the scores of a model, keep their variables, shapes and dtypes"
        )


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


class MissingFrame(StoreError, LookupError):
    walker: str
    row: int
    rows: int

    def __str__(self) -> str:
        return f"walker {self.walker} has {self.rows} published frames, so there is no row {self.row}"


class MergeFailed(StoreError):
    group: str
    problem: str

    def __str__(self) -> str:
        return f"{self.group} was not made: {self.problem}; the groups of its walkers stay"


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


class EmptyWindow(StoreError, ValueError):
    what: str

    def __str__(self) -> str:
        return f"{self.what}: this window has no frames; wait for more"
