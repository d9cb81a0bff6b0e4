"""When to train, and the rules of a workflow, which may be given as functions of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

R = TypeVar("R")
EXAMPLES = {"stop": "budget(frames=10_000)", "when": "every(frames=1000)"}  # what to write, for example


@dataclass(frozen=True)
class Every:
    """When to train: each time a number of frames is new, and not before there are `first` frames."""

    frames: int
    first: int

    def due(self, frames: int, trained_at: int | None) -> bool:
        return frames >= self.first if trained_at is None else frames - trained_at >= self.frames


def every(*, frames: int, first: int | None = None) -> Every:
    """Train when `frames` new frames have come since the last training; the first time at `first` frames.

    Frames of `@wf.held_out` do not count.

    Raises: ValueError: a count below 1.
    """
    if frames < 1 or (first is not None and first < 1):
        raise ValueError(f"every(frames={frames}, first={first}): counts of frames are at least 1")
    return Every(frames, frames if first is None else first)


def check(name: str, given: object, kind: type[R]) -> None:
    """Raises: TypeError: it is neither a rule nor a function of the parameters."""
    if not (isinstance(given, kind) or callable(given)):
        raise TypeError(f"{name}={given!r:.60}: give a rule, e.g. {EXAMPLES[name]}, or a function of the parameters")


def chosen(name: str, given: Any, kind: type[R], params: object) -> R:
    """The rule, or what a function of the parameters gives. Raises: TypeError: it gives something else."""
    rule = given if isinstance(given, kind) else given(params)
    if not isinstance(rule, kind):
        raise TypeError(f"it returned {rule!r:.60}; return a rule, e.g. {EXAMPLES[name]}")
    return rule
