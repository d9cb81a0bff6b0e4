"""Frames of a segment that was tried -> what is odd with their variables, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from steersman.checks.errors import NoTime
from steersman.stages.out import Out
from steersman.stages.start import Start
from steersman.steering import StopRule

CLOCK = 1000.0  # times what a segment takes: its first frame is that far from its start by a clock alone
COUNTED = "it is to be counted from the segment's start"


def in_words(out: Out, start: Start, described: Iterable[str], stop: StopRule, first: Mapping[str, Any]) -> str:
    """What a segment, or the next ones, will lack.

    Args:
        described: names that the workflow file gives dimensions and units.
        first: the first frame of the first segment.
    Raises: NoTime: the stop rule counts simulated time, and no frame has it.
    """
    stored = out.stored
    if stop.counts_simulated and "time" not in stored:
        raise NoTime(str(stop))
    return _never_stored(stored, described) + _goes_on(stored, start, first)


def _never_stored(stored: Iterable[str], described: Iterable[str]) -> str:
    """An app's descriptions may be of more than is stored; a slip leaves something that is stored without its own."""
    odd = [name for name in described if name not in stored]
    bare = [name for name in stored if name not in described and name != "segment"]
    if not odd or not (bare or "time" in odd):
        return ""
    return f"; variables= describes {', '.join(odd)}, which no frame has" + (
        f", and not {', '.join(bare)}" if bare else ""
    )


def _goes_on(stored: Mapping[str, Any], start: Start, first: Mapping[str, Any]) -> str:
    """Whether time is counted from anything but the segment's start: from the prepared one, or of a clock."""
    times = np.asarray(stored["time"][:], np.float64) if "time" in stored else np.zeros(0)
    if len(times) > 1 and times[0] > CLOCK * np.ptp(times) > 0:
        return f"; its first frame is at time {times[0]:g}, the others follow within {np.ptp(times):g}: {COUNTED}"
    before = float(start.frame["time"]) if start.frame and "time" in start.frame else 0.0
    began = float(stored["time"][0]) if "time" in stored else 0.0
    if before <= 0 or not math.isclose(began, before + float(first["time"])):
        return ""
    return f"; its time goes on, {began:g} after {before:g}: {COUNTED}"
