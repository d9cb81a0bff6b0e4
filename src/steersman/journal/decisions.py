"""The decisions of a run, beside its journal: what was refused, and what choosing took.

A line that is damaged is left out by every reader, and named by `verify`; one that is being written is left for later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict

import msgspec

from steersman.journal.run_directory import RunDirectory
from steersman.system import reading


class _Refused(TypedDict):
    frame: tuple[int, int, int]
    policy: str
    reason: str


class _Decision(TypedDict):
    t: float
    start: int
    candidates: int
    refused: list[_Refused]
    policy: str
    reason: str
    model: int
    frame: tuple[int, int, int] | None
    ranked_s: NotRequired[float]


def decoded(line: bytes) -> dict[str, Any] | None:
    """The decision of a line; None: it is damaged."""
    try:
        found = json.loads(line)
        msgspec.convert(found, _Decision)
    except (ValueError, RecursionError):  # of what is no UTF-8, no JSON, or no decision
        return None
    return dict(found)


def read(directory: RunDirectory) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The number of each line and its decision, see `decoded`; nothing where there is no file."""
    return ((number, decoded(line)) for number, line in enumerate(lines(directory), 1))


def lines(directory: RunDirectory) -> Iterator[bytes]:
    """What is written so far, line by line."""
    if directory.decisions.exists():
        yield from reading.lines(directory.decisions, directory.path)


def ranking_seconds(directory: RunDirectory) -> float:
    """How long policies ranked, in all; 0 of a run that did not record it."""
    return sum(float(each.get("ranked_s", 0.0)) for _, each in read(directory) if each)
