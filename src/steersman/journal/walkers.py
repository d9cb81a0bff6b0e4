"""What a state is made of: walkers, their segments, the starts they run, the models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from steersman.journal import records
from steersman.journal.segments import Segment, Segments
from steersman.store import ENDED
from steersman.store.names import walker_name


@dataclass(slots=True)
class Outstanding:
    """A start that is not done with: in the bag, or run as `segment` whose frames are not all published."""

    record: records.Start
    segment: Segment | None = None
    losses: int = 0  # walkers that died while they ran it
    given_up: bool = False  # it is not run again; frames of its last segment are still to be published


@dataclass(slots=True)
class Broken:
    """A segment that was cut short, by the loss of its walker or by walltime: it is to go on from its last frame."""

    segment: Segment
    record: records.Start
    losses: int = 0


@dataclass(slots=True)
class Failed:
    """A start whose segment failed, and the walker that ran it."""

    record: records.Start
    walker: int


@dataclass(slots=True)
class StageHealth:
    """How a function of the workflow file fares."""

    worked: bool = False  # at least once
    failures: int = 0  # since it last worked
    cause: str = ""  # of the last one


@dataclass(slots=True)
class Walker:
    """What is known of one walker; times in seconds since 1970 and seconds."""

    number: int
    slot: int
    started: float
    alive: bool = True
    gone: float | None = None  # when it left or was lost
    frames: int = 0
    segments: Segments = field(init=False)
    published_segments: int = 0
    simulated: float = 0.0  # of its published segments
    partial: float = 0.0  # of the published frames of the next one
    failures_in_a_row: int = 0
    since: float = 0.0  # when its current segment began or its last one ended
    heard: float = 0.0  # when it last began, ended or published something
    cut: bool = False  # it went while a segment ran
    node: str = ""
    pool: str = ""  # Parsl's name for the workers of a node in a block
    block_ends: float | None = None
    damaged: bool = False  # its frames were set aside, for they could not be read
    unreadable: set[int] = field(default_factory=set)  # segments that count no more, for they could not be read
    left_out: list[Segment] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # started, waited, read, ran

    def __post_init__(self) -> None:
        self.segments = Segments(self.number)

    @property
    def name(self) -> str:
        """Of its frames in the store."""
        return walker_name(self.number)

    @property
    def running(self) -> Segment | None:
        return self.segments.running

    @property
    def has_come(self) -> bool:
        """Whether anything was heard of it."""
        return self.heard > self.started

    @property
    def was_lost(self) -> bool:
        """Whether its last segment was lost with it."""
        return not self.alive and any(segment.how == "lost" for segment in self.segments[-1:])

    @property
    def counted_frames(self) -> int:
        if self.damaged:
            return 0
        if not self.left_out:  # as of nearly all, and thousands are summed up
            return self.frames
        return self.frames - sum(max(0, self.rows_end(segment) - segment.first) for segment in self.left_out)

    @property
    def counted_time(self) -> float:
        """What its published frames that count simulated."""
        if self.damaged:
            return 0.0
        if not self.left_out:
            return self.simulated + self.partial
        left_out = (each.simulated for each in self.left_out if each.number < self.published_segments)
        partial = 0.0 if any(each.number == self.published_segments for each in self.left_out) else self.partial
        return self.simulated + partial - sum(left_out)

    @property
    def whole(self) -> tuple[int, int, float]:
        """Its segments that have ended, and the frames and the time of them that count, published or soon to be."""
        ended, rows, time = self.published_segments, self.frames, self.counted_time
        if not self.alive or self.damaged:
            return ended, self.counted_frames, time
        time -= self.partial
        for segment in self.segments.unpacked:  # none or one, but for those that are published late
            rows = segment.first if segment.end is None else segment.end
            if segment.end is not None and segment.number >= self.published_segments:
                ended, time = ended + 1, time + segment.simulated
        return ended, self.counted_frames + rows - self.frames, time

    def keep_partial(self, segment: Segment) -> None:
        """A segment that was cut short keeps what its published frames simulated."""
        if segment.number == self.published_segments:
            segment.simulated = self.partial
            self.simulated += self.partial

    def knows(self, record: records.Record) -> bool:
        """Whether it was heard before: a server that is killed may forget that events were taken from it."""
        match record:
            case records.Began():
                return record.segment < len(self.segments)
            case records.Ended():
                return record.segment < len(self.segments) and self.segments[record.segment].end is not None
            case records.Published():
                return record.frames <= self.frames and record.segments <= self.published_segments
        return False

    def expects(self, record: records.Record) -> bool:
        """Whether it fits what is known: segments follow one another, and rows do not go back."""
        match record:
            case records.Began():
                return record.segment == len(self.segments) and record.first_row >= self.frames
            case records.Ended():
                running = self.running
                follows = record.segment == len(self.segments) if running is None else record.segment == running.number
                return follows and record.end_row >= record.first_row and record.how in ENDED
            case records.Published():
                ended = len(self.segments) - (self.running is not None)
                return record.frames >= self.frames and record.segments <= ended
        return True

    def rows_end(self, segment: Segment) -> int:
        """Row behind the last published one of a segment."""
        return self.frames if segment.end is None else min(self.frames, segment.end)

    def leave_out(self, segment: Segment) -> None:
        """Its frames count no more: another run of the same start does."""
        if segment.counts:
            segment.counts = False
            self.left_out.append(segment)

    def lose(self, numbers: Iterable[int], simulated: float) -> None:
        """Segments cannot be read; those of them that counted simulated so much."""
        self.unreadable.update(numbers)
        self.simulated -= simulated
        for segment in (self.segments[number] for number in numbers):
            if segment.counts:
                self.segments.drop(segment.number)
                self.left_out.append(replace(segment, counts=False, simulated=0.0))

    def take_in(self, segment: Segment) -> None:
        if not segment.counts:
            segment.counts = True
            self.left_out.remove(segment)


@dataclass
class ModelVersion:
    """What is known of one version of the model; `at` in seconds since 1970."""

    version: int
    frames: int
    at: float
    accepted: bool | None = None  # None: still training
    reason: str = ""
    epoch: records.Epoch | None = None  # how far its training is
    fit: records.Trained | None = None  # what came of it
    labels: int = 0  # that were there when it began
