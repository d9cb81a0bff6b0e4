"""Frames of a segment that was tried -> what is odd with their variables, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman.stages.out import Out
from steersman.stages.segment import miscounted
from steersman.stages.start import Start
from steersman.steering import StopRule
from steersman.system.errors import EngineError


def in_words(out: Out, start: Start, described: Iterable[str], stop: StopRule, first: Mapping[str, Any]) -> str:
    """What a segment, or the next ones, will lack.

    Args:
        described: names that the workflow file gives dimensions and units.
        first: the first frame of the first segment.
    Raises: EngineError: the stop rule counts simulated time, and no frame has it.
    """
    stored = out.stored
    if stop.counts_simulated and "time" not in stored:
        raise EngineError(
            "no frame has a `time`, and the stop rule counts simulated time ({rule}): the run would not end; "
            "write out.append(time=...), the simulated time since the segment's start",
            rule=stop,
        )
    return _never_stored(stored, described) + _goes_on(stored, start, first)


def frames_in_words(out: Out, segments: int) -> str:
    """How many frames of what so many segments gave: `25 frames of x float64 (3,)`."""
    made = f"{out.frames} frame{'' if out.frames == 1 else 's'}{f' ({segments} segments)' if segments > 1 else ''}"
    stored = {name: out.stored[name] for name in sorted(out.stored) if name != "segment"}
    return f"{made} of {', '.join(f'{name} {each.dtype} {each.shape[1:]}' for name, each in stored.items())}"


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
    """Whether time is counted from anything but the segment's start."""
    if "time" not in stored:
        return ""
    before = float(start.frame["time"]) if start.frame and "time" in start.frame else 0.0
    odd = miscounted(stored["time"][:], before, float(first["time"]))
    return f"; {odd}" if odd else ""
