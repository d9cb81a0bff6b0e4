"""Journal records -> the state of a run. The only way in which the state changes is `apply`, so replay gives it back.

Kinds of records: run, session, walker, joined, left, lost, start, began, frames, ended, blame, aside, damaged,
training, epoch, model, scored, metrics, stop, told, note, end.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from steersman.journal.errors import FINISHED, UnknownRecord
from steersman.journal.file import VERSION, Record
from steersman.journal.segments import Segment
from steersman.journal.walkers import Broken, Model, Start, Walker
from steersman.steering import SECONDS, Progress

REMEMBERED = 8  # newest decisions and notes that displays show


def frame_key(walker: Any, row: Any) -> Any:
    """One number for a frame, or for arrays of them: in order of walkers, then rows."""
    return walker * 2**40 + row


class State:
    """A run as its journal tells it."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.run: Record = {}
        self.sessions: list[Record] = []
        self.walkers: dict[int, Walker] = {}
        self.starts: dict[int, Start] = {}
        self.next_start = 0
        self.failed: dict[int, Record] = {}  # starts whose segment failed: to be tried again, or blamed
        self.broken: dict[int, Broken] = {}  # starts whose segment lost its walker: to go on
        self.used = array("q")  # frame_key of each frame that a segment was started from, as often as that was
        self.deaths = Counter[tuple[int, int]]()  # (walker, row) -> walkers that died on a start from it
        self.killed = 0  # walkers that died of what they ran, it may be
        self.blamed: set[tuple[int, int]] = set()
        self.models: list[Model] = []
        self.scored = 0
        self.scored_with = 0
        self.scoring_s = 0.0
        self.metrics: dict[str, list[float]] = {}
        self.decisions: deque[Record] = deque(maxlen=REMEMBERED)
        self.notes: deque[Record] = deque(maxlen=REMEMBERED)
        self.ended = Counter[str]()
        self.failures_in_a_row = self.frameless_in_a_row = 0
        self.node_failures = Counter[str]()  # by node, since its last good segment
        self.aside: set[str] = set()  # nodes that get no more work
        self.last_cause = ""
        self.paused = False
        self.pins: list[Record] = []  # frames that a person wants started from next
        self.settings: dict[str, Any] = {}  # parameters that a person changed while the run went on
        self.finish = ""  # who told the run to finish
        self.end: Record | None = None
        self.now = 0.0
        self._sums: dict[str, float] = {}  # over all walkers, since the last record: a step asks for them several times
        self._apply: dict[str, Callable[[Record], None]] = {
            name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if name.startswith("_on_")
        }
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Take one record in.

        Raises: UnknownRecord: another Steersman wrote it.
        """
        self.now = record["t"]
        self._sums.clear()
        try:
            apply = self._apply[record["kind"]]
        except KeyError:
            raise UnknownRecord(record["kind"], record.get("v", VERSION)) from None
        apply(record)

    @property
    def kinds(self) -> list[str]:
        """Kinds of records that there are."""
        return sorted(self._apply)

    # What follows from the state

    @property
    def frames(self) -> int:
        """Published frames that count."""
        return int(self._sum("counted_frames"))

    @property
    def published(self) -> tuple[int, int]:
        """Frames and ended segments that readers can see."""
        return self.frames, int(self._sum("published_segments"))

    @property
    def simulated(self) -> float:
        """Simulated time in all, in the unit of the run's `time` variable."""
        return self._sum("counted_time")

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
    def busy_segments(self) -> bool:
        """Whether a segment runs, or waits for its publication."""
        return any(walker.alive and walker.running for walker in self.walkers.values())

    @property
    def finished(self) -> bool:
        """Whether there is nothing to go on with."""
        return self.end is not None and self.end["outcome"] in FINISHED

    def hours(self, now: float) -> float:
        """Wall time over all sessions; a session ends with its last record, and one that goes on has come to `now`."""
        begins = [session["t"] for session in self.sessions]
        ends = [
            *(session["after"] for session in self.sessions[1:]),
            max(self.now, now) if self.end is None else self.now,
        ]
        return float(sum(end - begin for begin, end in zip(begins, ends, strict=True))) / 3600

    def progress(self, now: float) -> Progress:
        simulated_s, hours = self.simulated * SECONDS.get(self.time_unit, 1.0), self.hours(now)
        return Progress(self.frames, simulated_s, hours, hours * float(self.run.get("gpus", 0)), self.metrics)

    @property
    def idle(self) -> Counter[str]:
        """Seconds that the slots spent, by what they did."""
        return sum((walker.seconds for walker in self.walkers.values()), Counter())

    def _sum(self, name: str) -> float:
        if name not in self._sums:
            self._sums[name] = sum(getattr(walker, name) for walker in self.walkers.values())
        return self._sums[name]

    # How records change it

    def _on_run(self, record: Record) -> None:
        self.run = record

    def _on_session(self, record: Record) -> None:
        self.sessions.append(record)
        self.end = None

    def _on_walker(self, record: Record) -> None:
        number, t = record["walker"], record["t"]
        self.walkers[number] = Walker(number, record["slot"], t, since=t, heard=t)

    def _on_joined(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        walker.node, walker.pool, walker.block_ends = record["node"], record["pool"], record["block_ends"]
        walker.heard = record["t"]

    def _on_left(self, record: Record) -> None:
        self.walkers[record["walker"]].alive = False

    def _on_lost(self, record: Record) -> None:
        """A walker died. What it had committed stays; with `keep`, a segment that was cut short goes on from there.

        Only the segment that ran can have killed it: those before it ended well, and are merely not published yet.
        """
        walker = self.walkers[record["walker"]]
        walker.alive = False
        running, killed = walker.running, bool(record.get("blame"))
        self.node_failures[walker.node] += killed
        self.killed += killed
        for segment in walker.segments[walker.published_segments :]:
            blame = int(killed and segment is running)
            segment.how, segment.end = "lost", max(segment.first, walker.rows_end(segment))
            start = self.starts.get(segment.start)
            ours = start is not None and start.segment is segment
            if start is not None and ours and blame and start.record["parent"]:
                self.deaths[tuple(start.record["parent"][:2])] += 1
            if start is not None and ours and record.get("keep") and segment.end > segment.first:
                del self.starts[segment.start]
                self.broken[segment.start] = Broken(segment, start.record, start.losses + blame)
                continue
            walker.leave_out(segment)
            if start is not None and ours:
                self._done_with(segment.start)
                start.segment, start.losses = None, start.losses + blame

    def _on_start(self, record: Record) -> None:
        self.starts[record["start"]] = Start(record, losses=record.get("losses", 0))
        self.next_start = max(self.next_start, record["start"] + 1)
        self._done_with(record.get("again"))
        if record["parent"] and not record.get("attempt"):
            self.used.append(frame_key(*record["parent"][:2]))
        self.pins = [pin for pin in self.pins if pin["id"] != record.get("pin")]
        self.decisions.append(record)

    def _on_began(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        if (before := walker.running) is not None:  # the event that it ended was lost with the server
            self._close(before, record["first_row"], "finished")
        segment = Segment(walker.number, record["segment"], record["start"], record["first_row"])
        walker.segments.append(segment)
        walker.since = walker.heard = record["t"]
        walker.seconds["waited" if len(walker.segments) > 1 else "first wait"] += record["waited_s"]
        start = self.starts.get(record["start"])
        if start is None:  # its lease ended too early: another walker has published it
            walker.leave_out(segment)
            return
        if start.segment is not None:
            self.walkers[start.segment.walker].leave_out(start.segment)
        start.segment = segment

    def _on_frames(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        for segment in walker.segments[walker.published_segments : record["segments"]]:
            self._settle(segment)
            walker.simulated += segment.simulated
        walker.frames, walker.published_segments = record["frames"], record["segments"]
        walker.segments.pack(walker.published_segments)
        walker.heard = record["t"]

    def _on_ended(self, record: Record) -> None:
        walker = self.walkers[record["walker"]]
        walker.since = walker.heard = record["t"]
        walker.seconds["read"] += record["read_s"]
        walker.seconds["ran"] += record["ran_s"]
        if walker.running is None:  # the event that it began was lost with the server
            walker.segments.append(Segment(walker.number, record["segment"], record["start"], record["first_row"]))
        segment, how = walker.segments[-1], record["how"]
        self._close(segment, record["end_row"], how)
        segment.simulated = record["simulated"]
        if segment.number < walker.published_segments:
            walker.simulated += segment.simulated
        self.failures_in_a_row = self.failures_in_a_row + 1 if how == "failed" else 0
        self.frameless_in_a_row = self.frameless_in_a_row + 1 if record["end_row"] == record["first_row"] else 0
        self.node_failures[walker.node] = self.node_failures[walker.node] + 1 if how == "failed" else 0
        self.last_cause = record["cause"] or self.last_cause
        start = self.starts.get(segment.start)
        if start is not None and start.segment is segment:
            if how == "failed":
                self.failed[segment.start] = start.record
            if cut := record.get("cut"):
                self.broken[segment.start] = Broken(segment, start.record, start.losses, cut == "exact")

    def _on_blame(self, record: Record) -> None:
        self._done_with(record.get("start"))
        self.starts.pop(record.get("start", -1), None)
        if record["parent"]:
            self.blamed.add((record["parent"][0], record["parent"][1]))
        self.notes.append(record)

    def _on_aside(self, record: Record) -> None:
        self.aside.add(record["node"])
        self.notes.append(record)

    def _on_damaged(self, record: Record) -> None:
        """Something was set aside, for it was not whole: a model is not used, the frames of a walker do not count."""
        self.notes.append(record)
        if "model" in record:
            for model in self.models:
                if model.version == record["model"]:
                    model.accepted, model.reason = False, record["reason"]
            return
        walker = self.walkers[record["walker"]]
        walker.alive, walker.damaged = False, True
        walker.segments.leave_out(walker.frames)
        for number, start in list(self.starts.items()):
            if start.segment is not None and start.segment.walker == walker.number:
                start.segment = None
            parent = start.record["parent"]
            if start.segment is None and parent and parent[0] == walker.number:
                del self.starts[number]
        self.broken = {n: each for n, each in self.broken.items() if each.segment.walker != walker.number}

    def _on_training(self, record: Record) -> None:
        self.models.append(Model(record["model"], record["frames"], record["t"]))

    def _on_epoch(self, record: Record) -> None:
        """How far a training is; one that is told late is of no use."""
        if self.training is not None and self.training.version == record["model"]:
            self.training.epoch = record

    def _on_model(self, record: Record) -> None:
        model = self.models[-1]
        model.accepted, model.reason, model.card = record["accepted"], record["reason"], record

    def _on_scored(self, record: Record) -> None:
        self.scored, self.scored_with = record["frames"], record["model"]
        self.scoring_s += record.get("took_s", 0.0)

    def _on_metrics(self, record: Record) -> None:
        for name, value in record["values"].items():
            self.metrics.setdefault(name, []).append(value)

    def _on_stop(self, record: Record) -> None:
        self.notes.append(record)

    def _on_told(self, record: Record) -> None:
        """A person said something: who, when and what stand in the record."""
        match record["verb"]:
            case "pause" | "continue":
                self.paused = record["verb"] == "pause"
            case "pin":
                self.pins.append(record)
            case "set":
                self.settings |= record["settings"]
            case "finish":
                self.finish = record["who"]
        self.notes.append(record)

    def _on_note(self, record: Record) -> None:
        self.notes.append(record)

    def _on_end(self, record: Record) -> None:
        self.end = record

    def _close(self, segment: Segment, end: int, how: str) -> None:
        segment.end, segment.how = end, how
        self.ended[how] += 1

    def _done_with(self, start: int | None) -> None:
        if start is not None:
            self.failed.pop(start, None)
            self.broken.pop(start, None)

    def _settle(self, segment: Segment) -> None:
        """A segment is published: of several runs of one start, the first published one counts."""
        start = self.starts.pop(segment.start, None)
        if start is None:
            self.walkers[segment.walker].leave_out(segment)
        elif start.segment is not segment and start.segment is not None:
            self.walkers[segment.walker].take_in(segment)
            self.walkers[start.segment.walker].leave_out(start.segment)
