"""Journal -> history: what happened in a run, when and in what order; it goes on as the journal grows.

Everything that looks at a run reads this: status, watch, why, verify, the report. Of each start and segment a few
numbers are kept; the words of a start are read from the journal again when they are asked for.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from steersman.data.clock import Clock, WallTime
from steersman.data.overview import Overview, overview
from steersman.data.segment_table import SegmentTable, tabulate
from steersman.data.slot_time import gone_at
from steersman.data.table import Table
from steersman.journal import file as journal
from steersman.journal import records
from steersman.journal.file import Cursor, Flaw
from steersman.journal.given import TYPES
from steersman.journal.records import Record
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import Scoreboard
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.steering import Scores, Steering, StopRule
from steersman.store.names import SegmentName
from steersman.system import reading

SHOWN = 5  # flaws
_START = np.dtype([
    ("moment", "f8"), ("walker", "i4"), ("row", "i8"), ("segment", "i4"), ("policy", "i2"), ("model", "i4"),
    *TYPES, ("again", "i4"), ("seed", "i8"),
    ("set", "i4"), ("offset", "i8"),
])  # fmt: skip
_TIMES = np.dtype([("walker", "i4"), ("number", "i4"), ("began", "f8"), ("ended", "f8"), ("simulated", "f8")])


class History:
    """A run as its journal records it, with times.

    Args:
        read: read all there is at once; else the first `catch_up` or `follow` does.
    Attributes:
        state: the run at its last record.
        policies: who chose starts, in order of first appearance.
        sets: the parameters that people had changed, one after another.
        causes: segment name -> why it failed.
        stops: segment name -> the record that asked it to stop.
        noted: what the engine noted -> how often.
        place: how far the journal was read; its flaws are the lines that were set aside.
    """

    def __init__(self, directory: RunDirectory, *, read: bool = True) -> None:
        self.directory, self.state, self.place = directory, State(), Cursor()
        self.policies: list[str] = []
        self.sets: list[Mapping[str, Any]] = [{}]
        self.causes: dict[str, str] = {}
        self.stops: dict[str, records.Stop | records.Tell] = {}
        self.noted = Counter[str]()
        self._starts, self._times = Table(_START), Table(_TIMES)
        self._running: dict[int, tuple[int, records.Began]] = {}  # walker -> row and record of its segment that runs
        self._made: SegmentTable | None = None  # from all records so far
        self._metrics: dict[str, list[tuple[float, float]]] = {}
        self._take: dict[type[Record], Callable[[Any], None]] = {
            records.Start: self._on_start, records.Began: self._on_began, records.Ended: self._on_ended,
            records.Metrics: self._on_metrics,
            records.Note: self._on_note, records.Stop: self._on_stop, records.Tell: self._on_stop,
        }  # fmt: skip
        if read:
            self.catch_up()

    def catch_up(self) -> None:
        """Read what is new; costs what is new."""
        for record in journal.follow(self.directory.journal, self.place):
            journal.fits(self.place, self._apply, record)

    def follow(self) -> Iterator[Record]:
        """Read what is new, record for record."""
        for record in journal.follow(self.directory.journal, self.place):
            journal.fits(self.place, self._apply, record)
            yield record

    def _apply(self, record: Record) -> None:
        self._made = None
        self.state.apply(record)
        if take := self._take.get(type(record)):
            take(record)

    @property
    def flaws(self) -> list[Flaw]:
        return self.place.flaws

    @property
    def name(self) -> str:
        return self.state.run.workflow or self.directory.path.name

    @property
    def starts(self) -> np.ndarray:
        """(n,) of the starts by number: moment (seconds since 1970), walker, row and segment of the frame (-1: the
        prepared start), policy (in `policies`), model; what it was given, see `Given`, and its seed; again, the
        start that it repeats (-1: none); set (in `sets`); a start that the journal lacks has moment 0."""
        return self._starts.columns

    @property
    def chosen(self) -> np.ndarray:
        """Those that the journal holds and that repeat no other."""
        return self.starts[(self.starts["moment"] > 0) & (self.starts["again"] < 0)]

    def start(self, number: int) -> records.Start:
        """The record of a start; one of policy "unknown" when the journal lacks it."""
        known = self.starts
        if number < len(known) and known["moment"][number]:
            start = next(journal.follow(self.directory.journal, Cursor(offset=int(known["offset"][number]))), None)
            if isinstance(start, records.Start):
                return start
        reason = "the record of this start is missing in the journal"
        return records.Start(start=number, seed=0, policy=records.UNKNOWN, reason=reason)

    def chosen_as(self, starts: np.ndarray) -> np.ndarray:
        """The starts that were chosen, of starts that may repeat others: they were lost, failed, or waited while
        parameters changed."""
        known = self.starts
        if not len(known):
            return starts
        while True:
            there = np.clip(starts, 0, len(known) - 1)
            repeats = (there == starts) & (known["moment"][there] > 0) & (known["again"][there] >= 0)
            if not repeats.any():
                return starts
            starts = np.where(repeats, known["again"][there], starts)

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Name -> (n, 2) float, moment (seconds since 1970) and value."""
        return {name: np.array(series) for name, series in self._metrics.items()}

    @property
    def segments(self) -> SegmentTable:
        """Every segment, as columns, in the order in which they began."""
        if self._made is None:
            self._made = tabulate(self.state, self._times.columns, self.starts, self.policies)
        return self._made

    def overview(self, rule: StopRule | None = None, now: float | None = None) -> Overview:
        """The run at a glance, see `overview`; of one whose driver is gone the journal is read to its end."""
        seen = overview(self.state, self.directory.path, rule=rule, now=now)
        if not (seen.ended or seen.alive):
            self.catch_up()
            seen = overview(self.state, self.directory.path, rule=rule, now=now)
        return replace(seen, flaws=tuple(map(str, self.flaws[:SHOWN])))

    @property
    def clock(self) -> Clock:
        """Says how far the run had come at a moment."""
        segments = self.segments
        return Clock(self._sessions, segments.began, segments.ended, segments.simulated, self.state.time_unit)

    @property
    def wall_time(self) -> WallTime:
        return WallTime(self._sessions)

    @property
    def _sessions(self) -> list[tuple[float, float]]:
        """When each session began and when the one before it ended."""
        began = self.state.run.t or self.state.now
        return [(each.t, each.after or each.t) for each in self.state.sessions] or [(began, began)]

    def gone(self, walker: int) -> float:
        """When a walker left or was lost, or else when the run ended."""
        return gone_at(self.state, self.state.walkers[walker], self.state.now)

    @property
    def scores(self) -> Scores:
        """Every scored frame that counts, under the model that the run used last; no values before there are any."""
        return Scoreboard.load(self.directory.scores, self.state.scored_with, sys.maxsize).scores(self.state)

    def printed(self, name: str) -> str:
        """What a segment that failed (w3.17) or a walker that was lost (w3) left in `errors/`, or ""."""
        kind = "txt" if SegmentName.parse(name) else "stderr"
        return reading.text(self.directory.errors / f"{name}.{kind}", self.directory.path)

    @property
    def topology(self) -> bytes:
        """The atoms of a molecular run, in the PDB format; nothing where it left none. Raises: OddFile."""
        with contextlib.suppress(FileNotFoundError):
            return self.directory.read(self.directory.topology)
        return b""

    def settings(self) -> dict[str, Any]:
        """What was asked for, with what people changed since; empty when that is not kept."""
        if not self.directory.settings_file.exists():
            return {}
        settings = self.directory.settings()
        return settings | {"params": settings["params"] | self.state.wishes.settings}

    def steering(self, workflow: Workflow) -> Steering:
        """How its workflow steers, by its parameters of now."""
        return workflow.steering or workflow.steering_rule(loading.checked(workflow, self.settings()["params"]))

    @property
    def params(self) -> dict[str, Any]:
        """Parameters, with what people changed since; empty when they are not kept."""
        return dict(self.settings().get("params") or {})

    @property
    def params_in_words(self) -> dict[str, str]:
        """The same as text, which says of each that was changed what it was at the beginning."""
        began = self.directory.settings().get("params") or {} if self.state.wishes.settings else self.params
        changed = {name for name, value in self.params.items() if name not in began or began[name] != value}
        return {
            name: f"{value} (at the beginning {began.get(name)})" if name in changed else f"{value}"
            for name, value in self.params.items()
        }

    def _on_start(self, record: records.Start) -> None:
        if record.policy not in self.policies:
            self.policies.append(record.policy)
        parent = record.parent or (-1, -1, -1)
        if self.sets[-1] != record.set:
            self.sets.append(record.set)
        policy, changed = self.policies.index(record.policy), len(self.sets) - 1
        given = *record.given, -1 if record.again is None else record.again, record.seed
        self._starts.put(record.start, (record.t, *parent, policy, record.model, *given, changed, self.place.at))

    def _on_began(self, record: records.Began) -> None:
        row = len(self._times)
        self._running[record.walker] = row, record
        self._times.put(row, (record.walker, record.segment, record.t, np.nan, 0.0))

    def _on_ended(self, record: records.Ended) -> None:
        row, begun = self._running.pop(record.walker, (0, None))
        if begun is None or begun.segment != record.segment:  # the event that it began was lost with the server
            row, began = len(self._times), record.t - record.ran_s
        else:
            began = begun.t
        self._times.put(row, (record.walker, record.segment, began, record.t, record.simulated))
        if record.cause:
            self.causes[str(SegmentName(record.walker, record.segment))] = record.cause

    def _on_metrics(self, record: records.Metrics) -> None:
        for name, value in record.values.items():
            self._metrics.setdefault(name, []).append((record.t, value))

    def _on_note(self, record: records.Note) -> None:
        self.noted[record.text] += 1

    def _on_stop(self, record: records.Stop | records.Tell) -> None:
        if record.segment:
            self.stops[record.segment] = record
