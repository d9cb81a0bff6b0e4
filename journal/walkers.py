"""What a state is made of: walkers, their segments, the starts they run, the models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman.journal.file import Record
from steersman.journal.segments import Segment, Segments


@dataclass(slots=True)
class Start:
    """A start that is not done with: in the bag, or run as `segment` whose frames are not all published."""

    record: Record
    segment: Segment | None = None
    losses: int = 0  # walkers that died while they ran it


@dataclass(slots=True)
class Broken:
    """A segment that was cut short, by the loss of its walker or by walltime: it is to go on from its last frame."""

    segment: Segment
    record: Record
    losses: int = 0
    exact: bool = False  # it left its full restart state


@dataclass(slots=True)
class Walker:
    """What is known of one walker; times in seconds since 1970 and seconds."""

    number: int
    slot: int
    started: float
    alive: bool = True
    frames: int = 0
    segments: Segments = field(init=False)
    published_segments: int = 0
    simulated: float = 0.0  # of its published segments
    since: float = 0.0  # when its current segment began or its last one ended
    heard: float = 0.0  # when it last began, ended or published something
    node: str = ""
    pool: str = ""  # Parsl's name for the workers of a node in a block
    block_ends: float | None = None
    damaged: bool = False  # its frames were set aside, for they could not be read
    left_out: list[Segment] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)  # first wait, waited, read, ran

    def __post_init__(self) -> None:
        self.segments = Segments(self.number)

    @property
    def running(self) -> Segment | None:
        return self.segments.running

    @property
    def has_come(self) -> bool:
        """Whether anything was heard of it."""
        return self.heard > self.started

    @property
    def counted_frames(self) -> int:
        if self.damaged:
            return 0
        if not self.left_out:  # as of nearly all, and thousands are summed up
            return self.frames
        return self.frames - sum(max(0, self.rows_end(segment) - segment.first) for segment in self.left_out)

    @property
    def counted_time(self) -> float:
        if self.damaged:
            return 0.0
        if not self.left_out:
            return self.simulated
        left_out = (each.simulated for each in self.left_out if each.number < self.published_segments)
        return self.simulated - sum(left_out)

    def told(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Whether this event was told before: a server that is killed may forget that events were taken from it."""
        match kind:
            case "began":
                return int(fields["segment"]) < len(self.segments)
            case "ended":
                number = int(fields["segment"])
                return number < len(self.segments) and self.segments[number].end is not None
            case "frames":
                return bool(fields["frames"] <= self.frames and fields["segments"] <= self.published_segments)
        return False

    def heard_of(self, segments: int) -> bool:
        """Whether so many segments are known to have begun and ended: a server that is killed may forget to tell."""
        return segments <= len(self.segments) and (segments == 0 or self.segments[segments - 1].end is not None)

    def rows_end(self, segment: Segment) -> int:
        """Row behind the last published one of a segment."""
        return self.frames if segment.end is None else min(self.frames, segment.end)

    def leave_out(self, segment: Segment) -> None:
        """Its frames count no more: another run of the same start does."""
        if segment.counts:
            segment.counts = False
            self.left_out.append(segment)

    def take_in(self, segment: Segment) -> None:
        if not segment.counts:
            segment.counts = True
            self.left_out.remove(segment)


@dataclass
class Model:
    version: int
    frames: int
    at: float
    accepted: bool | None = None  # None: still training
    reason: str = ""
    epoch: Record = field(default_factory=dict)  # what its training last told
    card: Record = field(default_factory=dict)
