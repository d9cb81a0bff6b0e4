"""What can be wrong with a run directory; each says what to do next.

EngineError
├── BadInput
│   ├── NoSuchSegment     `why` was asked about a segment that the journal does not know
│   ├── BadDirectory      a run directory that exists, does not exist, or cannot be written
│   └── IsACopy           what can only be done with the run itself was asked of a copy
├── DamagedFile
│   └── RunDamaged        a file of a run cannot be read
├── RunIsLocked           another process drives this run
├── NoRoom                the disk is full, read-only, or there are too many open files
├── RunIsGone             a run directory was removed or moved while it was driven
└── JournalError          a journal that cannot be read
    └── JournalTooNew     a newer Steersman wrote it
"""

from __future__ import annotations

from steersman.system.errors import BadInput, DamagedFile, EngineError

FINISHED = ("goal", "budget", "finished")  # outcomes of a run that there is nothing to go on with


class NoSuchSegment(BadInput):
    segment: str
    newest: str

    def __str__(self) -> str:
        return (
            f"this run has no segment {self.segment!r}; "
            f"a segment is named <walker>.<number>, the newest is {self.newest}"
        )


class BadDirectory(BadInput):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class IsACopy(BadInput):
    path: str
    run: str
    at: str

    def __str__(self) -> str:
        return f"{self.path} is a copy of run {self.run} at {self.at}; use `steersman remote tell | resume {self.run}`"


class RunIsLocked(EngineError):
    path: str
    owner: str

    def __str__(self) -> str:
        return f"{self.path} is already driven by {self.owner}; watch it with `steersman watch {self.path}`"


class NoRoom(EngineError):
    path: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.problem}; all committed data are intact. "
            f"Remove the cause, then continue with `steersman resume {self.path}`"
        )


class RunIsGone(EngineError):
    path: str

    def __str__(self) -> str:
        return (
            f"{self.path} was removed or moved while it was driven; all its processes have ended. "
            "If it was moved, continue it with `steersman resume` and its new path"
        )


class RunDamaged(DamagedFile):
    path: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.path}: a file of this run cannot be read: {self.problem}; `steersman verify {self.path}` names it"
        )


class JournalError(EngineError):
    """A journal that cannot be read."""


class JournalTooNew(JournalError):
    path: str
    version: int
    known: int

    def __str__(self) -> str:
        other = "a newer one" if self.version > self.known else "lab/convert_0_1.py of a checkout converts a copy"
        return (
            f"{self.path}: a record has version {self.version}, this Steersman reads 2 to {self.known}; "
            f"use the Steersman that wrote it, or {other}"
        )
