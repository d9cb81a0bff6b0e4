"""The decisions of a run, in `decisions.jsonl` beside its journal: what was refused, and what choosing took.

A line that is damaged is left out by every reader, and named by `verify`; one that is being written is left for later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from msgspec import Struct, convert, to_builtins

from steersman.journal.record import FrameId, Number
from steersman.journal.records import Start
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading


class Alternative(Struct, frozen=True):
    """An alternative that was ranked high; without a frame, a new member."""

    frame: FrameId | None
    policy: str
    reason: str


class Decision(Struct, frozen=True, kw_only=True):
    """How a start was chosen.

    Args:
        t: seconds since 1970.
        candidates: frames among which it was.
        refused: the next best ones.
        ranked_s: how long policies ranked, since the decision before.
    """

    t: float
    candidates: Number
    frame: FrameId | None
    refused: tuple[Alternative, ...] = ()
    start: Number
    model: Number
    policy: str
    reason: str
    ranked_s: float = 0.0

    @classmethod
    def of(
        cls,
        start: Start,
        t: float,
        *,
        candidates: int = 0,
        refused: tuple[Alternative, ...] = (),
        ranked_s: float = 0.0,
    ) -> Decision:
        """With what the journal says of a start, too."""
        return cls(
            t=t, candidates=candidates, frame=start.parent, refused=refused, start=start.start, model=start.model,
            policy=start.policy, reason=start.reason, ranked_s=ranked_s,
        )  # fmt: skip

    def agrees(self, start: Start) -> bool:
        """Whether it says of a start what the journal says."""
        return (self.start, self.model, self.policy, self.reason, self.frame) == (
            start.start, start.model, start.policy, start.reason, start.parent,
        )  # fmt: skip


def encode(decision: Decision) -> bytes:
    """Its line."""
    return json.dumps(to_builtins(decision)).encode() + b"\n"


def decoded(line: bytes) -> Decision | None:
    """The decision of a line; None: it is damaged."""
    try:
        return convert(json.loads(line), Decision)
    except (ValueError, RecursionError):  # of what is no UTF-8, no JSON, or no decision
        return None


def read(directory: RunDirectory) -> Iterator[tuple[int, Decision | None]]:
    """The number of each line and its decision, see `decoded`; nothing where there is no file."""
    return ((number, decoded(line)) for number, line in enumerate(_lines(directory), 1))


def find(directory: RunDirectory, start: int) -> Decision | None:
    """The decision of a start."""
    named = f'"start": {start},'.encode()  # to parse each of a million lines would take seconds
    decisions = (decoded(line) for line in _lines(directory) if named in line)
    return next((each for each in decisions if each and each.start == start), None)


def ranking_seconds(directory: RunDirectory) -> float:
    """How long policies ranked, in all; 0 of a run that did not record it."""
    return sum(each.ranked_s for _, each in read(directory) if each)


def _lines(directory: RunDirectory) -> Iterator[bytes]:
    if directory.decisions.exists():
        yield from reading.lines(directory.decisions, directory.path)
