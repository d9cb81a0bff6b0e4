"""What can be wrong with a run directory; each says what to do next.

EngineError
├── BadInput
│   ├── NoSuchSegment     `why` was asked about a segment that the journal does not know
│   └── BadDirectory      a run directory that exists, does not exist, or cannot be written
├── RunIsLocked           another process drives this run
├── NoRoom                the disk is full, read-only, or there are too many open files
└── JournalError          a journal that cannot be read
    ├── JournalDamaged    a record in the middle is not whole
    ├── JournalTooNew     a newer Steersman wrote it
    └── UnknownRecord     a record of a kind that this Steersman does not know
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError

FINISHED = ("goal", "budget", "finished")  # outcomes of a run that there is nothing to go on with


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


class RunIsLocked(EngineError):
    def __init__(self, path: str, owner: str) -> None:
        super().__init__(path, owner)
        self.path, self.owner = path, owner

    def __str__(self) -> str:
        return f"{self.path} is being driven by {self.owner}; watch it with `steersman watch {self.path}`"


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
