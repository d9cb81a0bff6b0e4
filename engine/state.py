"""Journal records -> the state of a run. The only way in which the state changes is `apply`, so replay gives it back.

Kinds of records: run, session, walker, lost, start, began, frames, ended, blame, training, model, scored, metrics,
stop, note, end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from steersman.engine.journal import Record
from steersman.steering import SECONDS, Progress
from steersman.store import Span

REMEMBERED = 8  # newest decisions and notes that displays show
HELD_OUT = 10  # every tenth segment of a walker is held out of training


@dataclass
class Segment:
    """Frames [first, end) of a walker, made from one start; `end` is None while it runs."""

    walker: int
    number: int
    start: int
    first: int
    end: int | None = None
    how: str = "running"
    counts: bool = True  # False: lost with its walker or run twice; its frames are left out of scores

    @property
    def name(self) -> str:
        return f"w{self.walker}.{self.number}"


@dataclass
class Start:
    """A start that is not done with: in the bag, or run as `segment` whose frames are not all published."""

    record: Record
    segment: Segment | None = None


@dataclass
class Walker:
    """What is known of one walker; times in seconds since 1970 and seconds."""

    number: int
    slot: int
    started: float
    alive: bool = True
    frames: int = 0
    segments: list[Segment] = field(default_factory=list)
    published_segments: int = 0
    simulated: float = 0.0
    since: float = 0.0  # when its current segment began or its last one ended
    seconds: Counter[str] = field(default_factory=Counter)  # first wait, waited, read, ran

    @property
    def running(self) -> Segment | None:
        return self.segments[-1] if self.segments and self.segments[-1].end is None else None


@dataclass
class Model:
    version: int
    frames: int
    at: float
    accepted: bool | None = None  # None: still training
    reason: str = ""
    card: Record = field(default_factory=dict)


class State:
    """A run as its journal tells it."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.run: Record = {}
        self.sessions: list[Record] = []
        self.walkers: dict[int, Walker] = {}
        self.starts: dict[int, Start] = {}
        self.next_start = 0
        self.used: Counter[tuple[int, int]] = Counter()  # (walker, row) -> segments started from it
        self.blamed: set[tuple[int, int]] = set()
        self.models: list[Model] = []
        self.scored = 0
        self.metrics: dict[str, list[float]] = {}
        self.decisions: deque[Record] = deque(maxlen=REMEMBERED)
        self.notes: deque[Record] = deque(maxlen=REMEMBERED)
        self.ended = Counter[str]()
        self.failures_in_a_row = 0
        self.last_cause = ""
        self.end: Record | None = None
        self.now = 0.0
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        self.now = record["t"]
        getattr(self, "_on_" + record["kind"])(record)

    # What follows from the state

    @property
    def frames(self) -> int:
        return sum(walker.frames for walker in self.walkers.values())

    @property
    def published(self) -> tuple[int, int]:
        """Frames and ended segments that readers can see."""
        return self.frames, sum(walker.published_segments for walker in self.walkers.values())

    @property
    def simulated(self) -> float:
        """Simulated time in all, in the unit of the run's `time` variable."""
        return sum(walker.simulated for walker in self.walkers.values())

    @property
    def time_unit(self) -> str:
        return str(self.run.get("time_unit", "1"))

    @property
    def segments(self) -> Iterator[Segment]:
        return (segment for walker in self.walkers.values() for segment in walker.segments)

    @property
    def model(self) -> int:
        """Version of the newest accepted model, 0 before there is one."""
        return max((model.version for model in self.models if model.accepted), default=0)

    @property
    def training(self) -> Model | None:
        return self.models[-1] if self.models and self.models[-1].accepted is None else None

    @property
    def trained_at(self) -> int | None:
        return self.models[-1].frames if self.models else None

    @property
    def waiting_starts(self) -> int:
        return sum(start.segment is None for start in self.starts.values())

    @property
    def hours(self) -> float:
        """Wall time over all sessions; a session ends with its last record."""
        begins = [session["t"] for session in self.sessions]
        ends = [*(session["after"] for session in self.sessions[1:]), self.now]
        return float(sum(end - begin for begin, end in zip(begins, ends, strict=True))) / 3600

    @property
    def progress(self) -> Progress:
        simulated_s = self.simulated * SECONDS.get(self.time_unit, 1.0)
        gpu_hours = self.hours * float(self.run.get("gpus", 0))
        return Progress(self.frames, simulated_s, self.hours, gpu_hours, self.metrics)

    @property
    def idle(self) -> Counter[str]:
        """Seconds that the slots spent, by what they did."""
        return sum((walker.seconds for walker in self.walkers.values()), Counter())

    def spans(self, *, held_out: bool | None = None) -> list[Span]:
        """Published frames that count, by segment, in order of walkers; only held-out ones or the others if asked."""
        found = []
        for walker in self.walkers.values():
            for segment in walker.segments:
                end = walker.frames if segment.end is None else min(walker.frames, segment.end)
                chosen = held_out is None or held_out == (segment.number % HELD_OUT == HELD_OUT - 1)
                if segment.counts and chosen and end > segment.first:
                    found.append(Span(f"w{walker.number}", segment.first, end))
        return found

    def spans_after(self, done: Mapping[str, int]) -> list[Span]:
        """Published frames that count, from row `done[walker]` on; costs what is new, not what there is."""
        found: list[Span] = []
        for walker in self.walkers.values():
            first = done.get(f"w{walker.number}", 0)
            own: list[Span] = []
            for segment in reversed(walker.segments):
                end = walker.frames if segment.end is None else min(walker.frames, segment.end)
                if segment.counts and end > max(first, segment.first):
                    own.append(Span(f"w{walker.number}", max(first, segment.first), end))
                if segment.first <= first:
                    break
            found += reversed(own)
        return found

    def segment_of(self, walker: int, row: int) -> Segment | None:
        """The segment that made a frame."""
        segments = self.walkers[walker].segments
        at = int(np.searchsorted([segment.first for segment in segments], row, side="right")) - 1
        while at > 0 and segments[at].end is not None and segments[at].end <= row:  # type: ignore[operator]
            at -= 1  # an empty segment shares its first row with the next one
        return segments[at] if at >= 0 else None

    # How records change it

    def _on_run(self, record: Record) -> None:
        self.run = record

    def _on_session(self, record: Record) -> None:
        self.sessions.append(record)
        self.end = None

    def _on_walker(self, record: Record) -> None:
        number = record["walker"]
        self.walkers[number] = Walker(number, record["slot"], record["t"], since=record["t"])

    def _on_lost(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        walker.alive = False
        for segment in walker.segments[walker.published_segments :]:
            segment.how, segment.counts = "lost", False
            segment.end = segment.first if segment.end is None else segment.end

    def _on_start(self, record: Record) -> None:
        self.starts[record["start"]] = Start(record)
        self.next_start = max(self.next_start, record["start"] + 1)
        if record["parent"] and not record.get("attempt"):
            self.used[tuple(record["parent"][:2])] += 1
        self.decisions.append(record)

    def _on_began(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        if (before := walker.running) is not None:  # the event that it ended was lost with the server
            self._close(before, record["first_row"], "finished")
        segment = Segment(walker.number, record["segment"], record["start"], record["first_row"])
        walker.segments.append(segment)
        walker.since = record["t"]
        walker.seconds["waited" if len(walker.segments) > 1 else "first wait"] += record["waited_s"]
        start = self.starts.get(record["start"])
        if start is None:  # its lease ended too early: another walker has published it
            segment.counts = False
            return
        if start.segment is not None:
            start.segment.counts = False
        start.segment = segment

    def _on_frames(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        for segment in walker.segments[walker.published_segments : record["segments"]]:
            self._settle(segment)
        walker.frames, walker.published_segments = record["frames"], record["segments"]
        walker.simulated = record["simulated"]

    def _on_ended(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        walker.since = record["t"]
        walker.seconds["read"] += record["read_s"]
        walker.seconds["ran"] += record["ran_s"]
        if walker.running is None:  # the event that it began was lost with the server
            walker.segments.append(Segment(walker.number, record["segment"], record["start"], record["first_row"]))
        self._close(walker.segments[-1], record["end_row"], record["how"])
        self.failures_in_a_row = self.failures_in_a_row + 1 if record["how"] == "failed" else 0
        self.last_cause = record["cause"] or self.last_cause

    def _on_blame(self, record: Record) -> None:
        self.blamed.add((record["parent"][0], record["parent"][1]))

    def _on_training(self, record: Record) -> None:
        self.models.append(Model(record["model"], record["frames"], record["t"]))

    def _on_model(self, record: Record) -> None:
        model = self.models[-1]
        model.accepted, model.reason, model.card = record["accepted"], record["reason"], record

    def _on_scored(self, record: Record) -> None:
        self.scored = record["frames"]

    def _on_metrics(self, record: Record) -> None:
        for name, value in record["values"].items():
            self.metrics.setdefault(name, []).append(value)

    def _on_stop(self, record: Record) -> None:
        self.notes.append(record)

    def _on_note(self, record: Record) -> None:
        self.notes.append(record)

    def _on_end(self, record: Record) -> None:
        self.end = record
        for walker in self.walkers.values():
            walker.alive = False

    def _close(self, segment: Segment, end: int, how: str) -> None:
        segment.end, segment.how = end, how
        self.ended[how] += 1

    def _settle(self, segment: Segment) -> None:
        """A segment is published: of several runs of one start, the first published one counts."""
        start = self.starts.pop(segment.start, None)
        if start is None:
            segment.counts = False
        elif start.segment is not segment and start.segment is not None:
            segment.counts, start.segment.counts = True, False
