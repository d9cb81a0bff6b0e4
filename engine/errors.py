"""What can be wrong before or while a run goes on; each says what to do next.

EngineError
├── BadInput              something the user wrote; exit code 2
│   ├── UnknownName       a key, workflow or site that does not exist, with the nearest that does
│   ├── BadValue          a parameter of the wrong type or out of range
│   ├── BadWorkflow       a workflow file that cannot be used: file, line, reason
│   ├── NoSuchSegment     `why` was asked about a segment that the journal does not know
│   ├── NotRunning        somebody is told something who does not listen
│   └── BadDirectory      a run directory that exists, does not exist, or cannot be written
├── RunIsLocked           another process drives this run
├── ExecutorLost          a part of Parsl died; the engine puts another in its place
├── BlockEnds             a training would not be done before its block ends
├── NoRoom                the disk is full, read-only, or there are too many open files
└── JournalError          a journal that cannot be read
    ├── JournalDamaged    a record in the middle is not whole
    ├── JournalTooNew     a newer Steersman wrote it
    └── UnknownRecord     a record of a kind that this Steersman does not know
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

FINISHED = ("goal", "budget", "finished")  # outcomes of a run that there is nothing to go on with


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


class BadWorkflow(BadInput):
    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return f"{where}: {self.problem}"


class NoSuchSegment(BadInput):
    def __init__(self, segment: str, newest: str) -> None:
        super().__init__(segment, newest)
        self.segment, self.newest = segment, newest

    def __str__(self) -> str:
        return (
            f"this run has no segment {self.segment!r}; "
            f"a segment is named <walker>.<number>, the newest is {self.newest}"
        )


class BadDirectory(BadInput):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class NotRunning(BadInput):
    def __init__(self, path: str, outcome: str = "", reason: str = "") -> None:
        super().__init__(path, outcome, reason)
        self.path, self.outcome, self.reason = path, outcome, reason

    def __str__(self) -> str:
        if self.outcome in FINISHED:
            return f"{self.path} is over ({self.outcome}): {self.reason}"
        told = f"has ended ({self.outcome}): {self.reason}" if self.outcome else "is not running, or does not answer"
        return f"{self.path} {told}; `steersman resume {self.path}` goes on with it"


class RunIsLocked(EngineError):
    def __init__(self, path: str, owner: str) -> None:
        super().__init__(path, owner)
        self.path, self.owner = path, owner

    def __str__(self) -> str:
        return f"{self.path} is being driven by {self.owner}; watch it with `steersman watch {self.path}`"


class ExecutorLost(EngineError):
    """A part of Parsl died: everything that ran on it is lost, and is started again."""


class BlockEnds(EngineError):
    def __init__(self, needs_s: float, left_s: float) -> None:
        super().__init__(needs_s, left_s)
        self.needs_s, self.left_s = needs_s, left_s

    def __str__(self) -> str:
        return f"a training takes about {self.needs_s:.0f} s and its block ends in {self.left_s:.0f} s; the next block"


class NoRoom(EngineError):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.problem}; what was committed is whole. "
            f"Remove the cause, then go on with `steersman resume {self.path}`"
        )


class JournalError(EngineError):
    """A journal that cannot be read."""


class JournalDamaged(JournalError):
    def __init__(self, path: str, line: int) -> None:
        super().__init__(path, line)
        self.path, self.line = path, line

    def __str__(self) -> str:
        return (
            f"{self.path}, line {self.line}: this record is not whole (its checksum differs) though others follow it; "
            "the file was changed or the disk is damaged. `steersman verify --repair` cuts it there, "
            "and what the store holds beyond is adopted at resume"
        )


class JournalTooNew(JournalError):
    def __init__(self, path: str, version: int, known: int) -> None:
        super().__init__(path, version, known)
        self.path, self.version, self.known = path, version, known

    def __str__(self) -> str:
        return (
            f"{self.path}: a record has version {self.version}, this Steersman reads up to {self.known}; "
            "use the Steersman that wrote it, or a newer one"
        )


class UnknownRecord(JournalError):
    def __init__(self, kind: str, version: int) -> None:
        super().__init__(kind, version)
        self.kind, self.version = kind, version

    def __str__(self) -> str:
        return (
            f"the journal has a record of kind {self.kind!r} (version {self.version}) that this Steersman does not "
            "know; use the Steersman that wrote it, or a newer one"
        )
