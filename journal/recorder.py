"""The one way in which a run's state changes: a record goes into the journal and then into the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman.journal.file import Journal, Record
from steersman.journal.state import State


class Recorder:
    def __init__(self, journal: Journal, state: State) -> None:
        self.journal, self.state = journal, state

    def record(self, kind: str, **fields: Any) -> Record:
        record = self.journal.append(kind, fields)
        self.state.apply(record)
        return record

    def record_all(self, kind: str, several: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Record what belongs together: after a crash all of it is in the journal, or nothing."""
        records = self.journal.append_all(kind, several)
        for record in records:
            self.state.apply(record)
        return records

    def now(self) -> float:
        """Seconds since 1970, by the clock that the journal's times are from."""
        return self.journal.clock()

    def note(self, text: str) -> None:
        """Tell people something, in the journal and on the display."""
        self.record("note", text=text)
