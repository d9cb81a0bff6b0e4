"""What can be wrong, whatever the room: the base of the errors, and what a person wrote wrong.

EngineError
└── BadInput              something the user wrote; exit code 2
    ├── UnknownName       a key, workflow or site that does not exist, with the nearest that does
    └── BadValue          a parameter of the wrong type or out of range
"""

from __future__ import annotations

import difflib
from collections.abc import Collection


class EngineError(Exception):
    """Anything the engine reports."""


class BadInput(EngineError, ValueError):
    """Something the user wrote."""


class UnknownName(BadInput):
    def __init__(self, what: str, name: str, valid: Collection[str]) -> None:
        super().__init__(what, name, tuple(valid))
        self.what, self.name, self.valid = what, name, tuple(valid)

    def __str__(self) -> str:
        near = difflib.get_close_matches(self.name, self.valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"there is no {self.what} {self.name!r}; {hint}Valid: {', '.join(sorted(self.valid))}"


class BadValue(BadInput):
    def __init__(self, name: str, value: str, problem: str) -> None:
        super().__init__(name, value, problem)
        self.name, self.value, self.problem = name, value, problem

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.problem}"
