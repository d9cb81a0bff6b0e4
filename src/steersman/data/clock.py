"""Moments of a run -> how far it had come: wall time without the pauses between sessions, and simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

LADDER = ("fs", "ps", "ns", "us", "ms", "s")  # each 1000 times the one before
SHORTEST_S = 1e-6  # of a segment that began and ended at one moment
DIGITS, SMALLEST = 10, 1e-250  # of the simulated time of all
LONGEST_IN_SECONDS = 600.0  # a longer run is shown in minutes
LONGEST_IN_MINUTES = 600.0  # and a still longer one in hours


@dataclass(frozen=True)
class Scale:
    """A quantity as an axis shows it: value / `divisor`, in `unit`."""

    name: str
    unit: str
    divisor: float

    @property
    def label(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def size(self) -> tuple[str, float]:
        """A unit of which this one is a multiple, and the multiple: what is drawn on one axis is compared by them."""
        return (LADDER[0], 1000.0 ** LADDER.index(self.unit)) if self.unit in LADDER else (self.unit, 1.0)

    def text(self, value: float) -> str:
        shown = value / self.divisor
        return f"{shown:,.0f} {self.unit}".strip() if abs(shown) >= 1000 else f"{shown:.4g} {self.unit}".strip()


class WallTime:
    """Wall time of a run, without the pauses between its sessions.

    Args:
        sessions: when each session began and when the one before it ended, in seconds since 1970.
    """

    def __init__(self, sessions: Sequence[tuple[float, float]]) -> None:
        self._begins = np.array([begin for begin, _ in sessions])
        self._pauses = np.cumsum([begin - after for begin, after in sessions])

    def elapsed(self, moment: ArrayLike) -> np.ndarray:
        """Seconds from the beginning of the run to moments in seconds since 1970."""
        at = np.maximum(np.searchsorted(self._begins, moment, side="right") - 1, 0)
        return np.asarray(np.asarray(moment, dtype=float) - self._begins[0] - self._pauses[at])


class Clock(WallTime):
    """Says how far a run had come at a moment; a segment simulates evenly while it runs.

    Args:
        sessions: see `WallTime`.
        began, ended: (n,), when each segment did.
        simulated: (n,), what each of them simulated, in `unit`.
    """

    def __init__(
        self,
        sessions: Sequence[tuple[float, float]],
        began: np.ndarray,
        ended: np.ndarray,
        simulated: np.ndarray,
        unit: str,
    ) -> None:
        super().__init__(sessions)
        first = began - self._begins[0]
        last = np.maximum(ended - self._begins[0], first + SHORTEST_S)
        moments, faster = np.concatenate([[0.0], first, last]), simulated / (last - first)
        order = np.argsort(moments, kind="stable")
        self._moments = moments[order]  # between two of them the run simulates evenly
        pace = np.cumsum(np.concatenate([[0.0], faster, -faster])[order])
        rising = np.cumsum(np.concatenate([[0.0], pace[:-1] * np.diff(self._moments)]))
        largest = int(np.log10(max(rising[-1], SMALLEST)))
        self._simulated = np.round(rising, DIGITS - largest)  # else 199.9999999999968
        self.wall = wall_scale(float(self.elapsed(self._begins[0] + self._moments[-1])))
        self.simulated_scale = simulated_scale(float(self._simulated[-1]), unit)

    def simulated(self, moment: ArrayLike) -> np.ndarray:
        """Simulated time of all walkers together, in the run's unit."""
        return np.asarray(np.interp(np.asarray(moment, dtype=float) - self._begins[0], self._moments, self._simulated))

    @property
    def counts_simulated(self) -> bool:
        """Whether the run stores simulated time at all."""
        return bool(self._simulated[-1] > 0)

    @property
    def progress_scale(self) -> Scale:
        return self.simulated_scale if self.counts_simulated else self.wall

    def progress(self, moment: ArrayLike) -> np.ndarray:
        """What figures show along their time axis, in `progress_scale`: simulated time, or wall time without it."""
        seconds_or_units = self.simulated(moment) if self.counts_simulated else self.elapsed(moment)
        return seconds_or_units / self.progress_scale.divisor


def wall_scale(longest_s: float) -> Scale:
    if longest_s <= LONGEST_IN_SECONDS:
        return Scale("wall time", "s", 1.0)
    if longest_s <= 60 * LONGEST_IN_MINUTES:
        return Scale("wall time", "min", 60.0)
    return Scale("wall time", "h", 3600.0)


def simulated_scale(longest: float, unit: str) -> Scale:
    """The largest SI unit in which the longest time is at least 1."""
    if unit not in LADDER:
        return Scale("simulated time", "" if unit == "1" else unit, 1.0)
    steps = int(np.log10(max(longest, 1.0)) // 3)
    at = min(LADDER.index(unit) + steps, len(LADDER) - 1)
    return Scale("simulated time", LADDER[at], 1000.0 ** (at - LADDER.index(unit)))
