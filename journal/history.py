"""Run directory -> history: what happened in a run, when, and in what order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steersman.journal import file as journal
from steersman.journal.clock import Clock
from steersman.journal.file import Record
from steersman.journal.run_directory import RunDirectory
from steersman.journal.segment_table import ChosenStart, Segments, Times, tabulate
from steersman.journal.state import State


@dataclass
class _Moments:
    """What the state forgets: when things happened."""

    starts: dict[int, ChosenStart] = field(default_factory=dict)
    segments: dict[tuple[int, int], Times] = field(default_factory=dict)
    metrics: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    gone: dict[int, float] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    trained_in: int | None = None
    scored_with: int = 0

    def take(self, record: Record) -> None:
        match record["kind"]:
            case "start":
                parent = tuple(record["parent"]) if record["parent"] else None
                chosen = (parent, record["policy"], record["reason"], record["model"])
                self.starts[record["start"]] = ChosenStart(record["t"], *chosen)
            case "began":
                self.segments[record["walker"], record["segment"]] = Times(record["t"])
            case "ended":
                self._take_end(record)
            case "metrics":
                self.metrics.append((record["t"], record["values"]))
            case "lost" | "left":
                self.gone[record["walker"]] = record["t"]
            case "note":
                self.notes[record["text"]] += 1
            case "scored":
                self.scored_with = record["model"]

    def _take_end(self, record: Record) -> None:
        key = record["walker"], record["segment"]
        began = self.segments[key].began if key in self.segments else record["t"] - record["ran_s"]
        self.segments[key] = Times(began, record["t"], record["simulated"])
        if record["cause"]:
            self.causes[f"w{key[0]}.{key[1]}"] = record["cause"]


class History:
    """A run as its journal tells it, with times.

    Attributes:
        state: the run at its last record.
        starts: every start that was chosen, by number.
        segments: every segment, as columns.
        metrics: name -> (n, 2) float, moment (seconds since 1970) and value.
        causes: segment name -> why it failed.
        notes: what the engine noted -> how often.
        scored_with: version of the model whose scores the run looked at last, 0 without one.
        clock: tells how far the run had come at a moment.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory, self.state, moments = directory, State(), _Moments()
        for record in journal.read(directory.journal):
            self.state.apply(record)
            moments.take(record)
        self.starts, self.causes, self.scored_with = moments.starts, moments.causes, moments.scored_with
        self.metrics, self.notes = _series(moments.metrics), moments.notes
        self.segments: Segments = tabulate(self.state, moments.starts, moments.segments)
        self._gone = moments.gone
        self.clock = self._clock()

    @property
    def name(self) -> str:
        return str(self.state.run.get("workflow", self.directory.path.name))

    def gone(self, walker: int) -> float:
        """When a walker was lost, or else when the run ended."""
        return self._gone.get(walker, self.state.now)

    def settings(self) -> dict[str, Any]:
        """What was asked for; empty when that is not kept."""
        return self.directory.settings() if self.directory.settings_file.exists() else {}

    def policies(self) -> list[str]:
        """Who chose starts, in order of first appearance."""
        return list(dict.fromkeys(start.policy for start in self.starts.values()))

    def _clock(self) -> Clock:
        began = self.state.run.get("t", self.state.now)
        begins = [float(session["t"]) for session in self.state.sessions] or [began]
        after = [float(session.get("after") or session["t"]) for session in self.state.sessions] or [began]
        sessions = list(zip(begins, after, strict=True))
        return Clock(sessions, self.segments.ended, self.segments.simulated, self.state.time_unit)


def _series(metrics: list[tuple[float, dict[str, float]]]) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for _, values in metrics for name in values)
    return {name: np.array([(t, values[name]) for t, values in metrics if name in values]) for name in names}
