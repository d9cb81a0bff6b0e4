"""What can go wrong in the store.

StoreError
├── ShapeMismatch     a row does not fit its variable
├── BadVariable       a name or a kind of value that cannot be stored
├── MissingVariable   a variable was asked for that no frame has
├── MissingFrame      a frame was asked for that is not there
├── DamagedShard      bytes are no longer those that were written
└── EmptyWindow       a window holds no frame
"""

from __future__ import annotations


class StoreError(Exception):
    """Anything the store reports."""


class ShapeMismatch(StoreError, ValueError):
    def __init__(self, variable: str, expected: str, got: str) -> None:
        super().__init__(variable, expected, got)
        self.variable, self.expected, self.got = variable, expected, got

    def __str__(self) -> str:
        return (
            f"variable {self.variable!r}: a row of {self.expected} was expected, {self.got} came; "
            "every frame of a run has the same variables, shapes and dtypes"
        )


class BadVariable(StoreError, ValueError):
    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(variable, problem)
        self.variable, self.problem = variable, problem

    def __str__(self) -> str:
        return f"variable {self.variable!r}: {self.problem}"


class MissingVariable(StoreError, KeyError):
    def __init__(self, variable: str, stored: str) -> None:
        super().__init__(variable, stored)
        self.variable, self.stored = variable, stored

    def __str__(self) -> str:
        return f"there is no variable {self.variable!r}; stored are: {self.stored}"


class MissingFrame(StoreError, LookupError):
    def __init__(self, walker: str, row: int, rows: int) -> None:
        super().__init__(walker, row, rows)
        self.walker, self.row, self.rows = walker, row, rows

    def __str__(self) -> str:
        return f"walker {self.walker} has {self.rows} published frames, row {self.row} is not one of them"


class DamagedShard(StoreError, ValueError):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: these are not the bytes that were written; see `steersman verify RUN --repair`"


class EmptyWindow(StoreError, ValueError):
    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: there is no frame in this window; wait for more frames"
