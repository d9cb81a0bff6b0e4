"""The one way in which a run's state changes: a record goes into the journal and then into the state."""

from __future__ import annotations

import logging
from pathlib import Path
from traceback import format_exception
from typing import TypeVar

from msgspec import to_builtins

from steersman.journal import records
from steersman.journal.file import Journal
from steersman.journal.records import Note, Record, Stage
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.system.errors import told

R = TypeVar("R", bound=Record)
TROUBLE = (records.Lost, records.Aside, records.Damaged, records.Blame)
FREQUENT = (
    records.Called,
    records.Task,
    records.Start,
    records.Began,
    records.Published,
    records.Ended,
    records.Merged,
    records.Epoch,
    records.Scored,
    records.Biased,
    records.Asked,
    records.Answering,
    records.Answered,
    records.Metrics,
)
log = logging.getLogger("steersman.journal")


class Recorder:
    def __init__(self, journal: Journal, state: State) -> None:
        self.journal, self.state = journal, state

    def record(self, record: R) -> R:
        """Write a record down and apply it; returns it with its time."""
        return self.record_all([record])[0]

    def record_all(self, several: list[R]) -> list[R]:
        """Record what belongs together: after a crash all of it is in the journal, or nothing."""
        written: list[R] = self.journal.append(*several)
        for record in written:
            self.state.apply(record)
            _log(record)
        return written

    def works(self, stage: str) -> None:
        """A function of the workflow file worked; written down when that is news."""
        known = self.state.stages.get(stage)
        if known is None or not known.worked or known.failures:
            self.record(Stage(stage=stage, ok=True))

    def fails(self, stage: str, cause: str, traceback: Path | None = None) -> None:
        """A function of the workflow file failed.

        Args:
            traceback: a file of errors/, which is there if it was the function that failed, and not its worker.
        """
        self.record(Stage(stage=stage, ok=False, cause=cause + (see(traceback) if traceback else "")))

    def fails_here(self, stage: str, error: Exception, then: str = "") -> None:
        """It failed in this process, with an error whose traceback is kept; what happens then is told."""
        file = RunDirectory(self.journal.path.parent).traceback(stage.replace(" ", "-"))
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(format_exception(error)), encoding="utf-8", errors="backslashreplace")
        self.fails(stage, f"{told(error)}{then}", file)

    def now(self) -> float:
        """Seconds since 1970, by the clock that the journal's times are from."""
        return self.journal.clock()

    def note(self, text: str, *, metric: str = "") -> None:
        """Note something for people, in the journal and on the display; of a metric, that it has no value yet."""
        self.record(Note(text=text, metric=metric))


def see(traceback: Path) -> str:
    """Where the traceback of a stage is, if it is there: not of one whose worker was lost."""
    return f" (see errors/{traceback.name})" if traceback.exists() else ""


def _log(record: Record) -> None:
    """What people follow in driver.log is what the journal says; of frequent records only at level DEBUG."""
    failed = isinstance(record, TROUBLE) or (isinstance(record, Stage) and not record.ok)
    failed |= isinstance(record, records.Task) and not record.sha256
    level = logging.WARNING if failed else logging.DEBUG if isinstance(record, FREQUENT) else logging.INFO
    if log.isEnabledFor(level):
        fields = {key: value for key, value in to_builtins(record).items() if key not in ("kind", "t", "more", "files")}
        log.log(level, "%s %s", record.kind, ", ".join(f"{key}={value}" for key, value in fields.items()))
