"""What can be wrong with a run directory.

EngineError
├── BadInput
│   └── BadDirectory      a run directory that exists, does not exist, or cannot be written
├── RunIsLocked           another process drives this run
└── JournalTooNew         a newer Steersman wrote the journal
"""

from __future__ import annotations

from os import PathLike

from steersman.system.errors import BadInput, DamagedFile, EngineError, UnknownName

FINISHED = ("goal", "budget", "finished")  # outcomes of a run that there is nothing to go on with


class BadDirectory(BadInput):
    path: str
    problem: str


class RunIsLocked(EngineError):
    path: str
    owner: str

    def __str__(self) -> str:
        return f"{self.path} is already driven by {self.owner}; watch it with `steersman watch {self.path}`"


class JournalTooNew(EngineError):
    path: str
    version: int
    known: int

    def __str__(self) -> str:
        other = "a newer one" if self.version > self.known else "lab/convert_0_1.py of a checkout converts a copy"
        return (
            f"{self.path}: a record has version {self.version}, this Steersman reads 2 to {self.known}; "
            f"use the Steersman that wrote it, or {other}"
        )


def no_segment(name: str, newest: str) -> UnknownName:
    return UnknownName("segment", name, [f"WALKER.NUMBER, the newest is {newest}"] if newest else [])


def no_room(path: str | PathLike[str], problem: str) -> EngineError:
    """The disk is full, read-only, or the like; or there may be no more files, processes or threads."""
    return EngineError(
        "{path}: {problem}; all committed data are intact. Remove the cause, then continue with "
        "`steersman resume {path}`",
        path=path, problem=problem,
    )  # fmt: skip


def run_damaged(path: str | PathLike[str], problem: str) -> DamagedFile:
    return DamagedFile(f"{path}: a file of this run cannot be read: {problem}; `steersman verify {path}` names it")
