"""What is known of a run, and what follows from it. It changes by records alone, see state.py."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from steersman.journal import records
from steersman.journal.backlog import Backlog
from steersman.journal.calls import Call
from steersman.journal.errors import FINISHED
from steersman.journal.modes import MODES
from steersman.journal.modes.labels import Labels
from steersman.journal.modes.mode import Mode
from steersman.journal.pace import Pace
from steersman.journal.records import FrameId, Record
from steersman.journal.segments import Segment
from steersman.journal.trainings import Trainings
from steersman.journal.walkers import Broken, Failed, Outstanding, StageHealth, Walker
from steersman.journal.wishes import Wishes
from steersman.steering import SECONDS, Progress
from steersman.store.names import FrameName, SegmentName

M = TypeVar("M", bound=Mode)
REMEMBERED = 8  # newest decisions and notes that displays show


class Standing:
    """How far a run has come, by its journal."""

    def __init__(self) -> None:
        self.run = records.Run()
        self.sessions: list[records.Session] = []
        self.prepared = ""  # SHA-256 of what prepare made
        self.known_labels = 0  # that it gave
        self.calls: dict[str, Call] = {}  # of tasks, by their keys, in the order in which plans made them
        self.asked: dict[str, str] = {}  # key of the call that was asked for last, by its task or plan; "": it failed
        self.walkers: dict[int, Walker] = {}
        self.next_walker = 0
        self.merged: dict[str, frozenset[int]] = {}  # merged groups of frames, and their walkers
        self.next_merged = 0
        self.starts: dict[int, Outstanding] = {}
        self.next_start = 0
        self.failed: dict[int, Failed] = {}  # starts whose segment failed: to be tried again, or blamed
        self.broken: dict[int, Broken] = {}  # starts whose segment lost its walker: to go on
        self.chosen = Counter[str]()  # starts by who chose them; one that is run again was chosen once
        self.used = array("q")  # frame_key of each frame that a segment was started from, or is not to be, as often
        self.reads: bool | None = None  # whether a segment without a state looks at its frame, as far as it was seen
        self.leaves_state = False  # whether a segment left one
        self.deaths = Counter[tuple[int, int]]()  # (walker, row) -> walkers that died on a start from it
        self.killed = 0  # walkers that died of what they ran, it may be
        self.blamed: set[tuple[int, int]] = set()
        self.models = Trainings()
        self.scored = 0
        self.scored_with = 0
        self.scoring_s = 0.0
        self.backlog = Backlog()
        self.unsound = set[tuple[str, int]]()  # versions of what was learned that were set aside: ("model", 3)
        self.metrics: dict[str, list[float]] = {}
        self.valueless = set[str]()  # metrics that have no value now; they may have had one
        self.measured_at: dict[str, list[int]] = {}  # of each of their values: how many frames had scores
        self.begins: dict[str, list[int]] = {}  # where in them another model begins
        self._measured_with: dict[str, int] = {}
        self.stages: dict[str, StageHealth] = {}  # that have worked or failed
        self.decisions: deque[records.Start] = deque(maxlen=REMEMBERED)
        self.notes: deque[Record] = deque(maxlen=REMEMBERED)
        self.ended = Counter[str]()
        self.failures_in_a_row = self.frameless_in_a_row = self.frameless = 0  # frameless: that finished
        self.failing_since = 0.0  # when the first of these failures was
        self.node_failures = Counter[str]()  # by node, since its last good segment
        self.aside: set[str] = set()  # nodes that get no more work
        self.last_cause = ""
        self.stopping: dict[str, Record] = {}  # segments that are to end, and who wants it
        self.pace = Pace()
        self.well_before = 0  # segments that had ended well when they last did
        self.end: records.End | None = None
        self.wishes = Wishes()
        self.now = 0.0
        self._modes = {kind: kind(self) for kind in MODES}
        self._sums: dict[str, float] = {}  # over all walkers, since the last record: a step asks for them several times

    @property
    def frames(self) -> int:
        """Published frames that count."""
        return int(self._sum("counted_frames"))

    @property
    def published(self) -> tuple[int, int]:
        """Frames and ended segments that readers can see."""
        return self.frames, int(self._sum("published_segments"))

    @property
    def waiting(self) -> int:
        """Frames that have no scores yet, of a run that has some."""
        return max(0, self.frames - self.scored) if self.scored else 0

    def waits_s(self, now: float) -> float:
        """How long the oldest of them has waited in this session."""
        since = self.backlog.since
        if since is None or not self.waiting:
            return 0.0
        return max(0.0, now - max(since, self.sessions[-1].t if self.sessions else since))

    @property
    def simulated(self) -> float:
        """Simulated time in all, in the unit of the run's `time` variable."""
        return self._sum("counted_time")

    @property
    def time_unit(self) -> str:
        return self.run.time_unit

    @property
    def _second(self) -> float:
        """One of the run's unit of time; NaN: that is no known one."""
        return SECONDS.get(self.time_unit, math.nan)

    @property
    def segments(self) -> Iterator[Segment]:
        return (segment for walker in self.walkers.values() for segment in walker.segments)

    def mode(self, kind: type[M]) -> M:
        """What one way of running adds, for those who know which they ask."""
        mode = self._modes[kind]
        assert isinstance(mode, kind)
        return mode

    @property
    def modes(self) -> Iterable[Mode]:
        """What each way of running adds."""
        return self._modes.values()

    def is_sound(self, start: records.Start) -> bool:
        """Whether nothing that a start is given was set aside."""
        return self.unsound.isdisjoint(start.given.versions)

    def learned(self, start: records.Start) -> dict[str, Any]:
        """Fields of `Start`: what a start gets of what was learned, which is the newest."""
        fields = {"with_model": self.models.newest}
        for mode in self.modes:
            fields |= mode.learned(start)
        return fields

    @property
    def slots(self) -> int:
        given = self.sessions[-1].slots if self.sessions else None
        return (self.run.slots if given is None else given) or len({walker.slot for walker in self.walkers.values()})

    @property
    def hired(self) -> list[Walker]:
        """The walkers of this session, those that are gone too."""
        since = self.sessions[-1].t if self.sessions else 0.0
        return [walker for walker in self.walkers.values() if walker.started >= since]

    @property
    def exact(self) -> bool:
        """Whether a segment begins at the prepared start, or exactly where another left its state, and nowhere else.

        The workflow says so; or it is seen that those without a state do not look at their frame, but leave one.
        """
        if self.run.exact is not None:
            return self.run.exact
        return self.reads is False and (self.leaves_state or not self.ended["finished"])

    @property
    def blind(self) -> bool:
        """Whether every segment begins at the prepared start, whatever is chosen: none looked at its frame, or left a
        state, though frames were chosen."""
        return self.reads is False and not self.exact and len(self.used) > 0

    @property
    def any_frame(self) -> bool:
        """Whether a segment goes on from a frame alone. Where nobody knows it does not, once there were states."""
        if self.run.exact is not None:
            return not self.run.exact
        return not self.leaves_state if self.reads is None else self.reads

    def goes_on_from(self, state: Any) -> Any:
        """Whether a segment can go on from the end of one, or of each, that left a state or not."""
        return state | (not self.exact)

    def can_begin_at(self, frame: FrameId) -> bool:
        """Whether a segment can begin at a published frame."""
        segment = self.walkers[frame.walker].segments[frame.segment]
        return not self.exact or (segment.state and segment.end == frame.row + 1)

    def name_of(self, frame: FrameId) -> str:
        """Of a stored frame, as `tell RUN pin` takes it: w1.39:32 is the 33rd of its segment."""
        walker = self.walkers.get(frame.walker)
        if walker is None or frame.segment >= len(walker.segments):  # what made it is missing in the journal
            return str(frame)
        first = walker.segments[frame.segment].first
        return str(FrameName(SegmentName(frame.walker, frame.segment), frame.row - first))

    def origin(self, start: records.Start) -> str:
        """Where a start begins, for people."""
        return f"from {self.name_of(start.parent)}" if start.parent else "from the prepared start"

    @property
    def waiting_starts(self) -> int:
        return sum(start.segment is None for start in self.starts.values())

    @property
    def open_starts(self) -> int:
        """Starts whose frames are still to be made, all or some."""
        return sum(start.segment is None or start.segment.end is None for start in self.starts.values())

    @property
    def running(self) -> list[Segment]:
        """The segments that run."""
        return [walker.running for walker in self.walkers.values() if walker.alive and walker.running]

    @property
    def finished(self) -> bool:
        """Whether there is nothing to go on with."""
        return self.end is not None and self.end.outcome in FINISHED

    def _reopen(self) -> None:
        """A run that had come to its end may have more to do: it can be resumed, though people told it to finish."""
        if self.finished:
            self.end, self.wishes.finish = None, ""

    def hours(self, now: float) -> float:
        """Wall time over all sessions; a session ends with its last record, and one that goes on has come to `now`."""
        return float(self.clocks(now)[0, -1])

    def gpu_hours(self, now: float) -> float:
        """The same, times the GPUs that each session held."""
        return float(self.clocks(now)[1, -1])

    def clocks(self, now: float) -> np.ndarray:
        """(2, sessions + 1) hours and GPU hours by the end of each session, from 0 on."""
        begins = [session.t for session in self.sessions]
        last = max(self.now, now) if self.end is None else self.now
        ends = [*(session.after or session.t for session in self.sessions[1:]), last]
        hours = [(end - begin) / 3600 for begin, end in zip(begins, ends, strict=False)]
        gpus = [self.run.gpus if session.gpus is None else session.gpus for session in self.sessions]
        return np.cumsum([[0.0, *hours], [0.0, *(a * b for a, b in zip(hours, gpus, strict=True))]], axis=1)

    def _before_segment(self, walker: Walker, record: records.Began) -> None:
        """What a walker's time went into before it began a segment."""
        if len(walker.segments) == 1:
            walker.seconds["started"] = max(0.0, record.t - walker.started)
            return
        walker.seconds["waited"] += record.waited_s
        paused = min(record.waited_s, self.wishes.paused_s(record.t - record.waited_s, record.t))
        walker.seconds["paused"] += paused
        walker.seconds["waited"] -= paused

    def worked(self, now: float) -> Progress:
        """What was done; `hours` are those in which the run was not paused."""
        hours = self.wishes.paused_at if self.wishes.paused else self.hours(now)
        return Progress(self.frames, self.simulated * self._second, hours - self.wishes.paused_hours)

    def has_value(self, metric: str) -> bool:
        """Whether the newest scores gave it one."""
        stage = self.stages.get(f"metric {metric}")
        return metric not in self.valueless and not (stage and stage.failures)

    def progress(self, now: float) -> Progress:
        simulated_s, (hours, gpu_hours) = self.simulated * self._second, self.clocks(now)[:, -1].tolist()
        metrics = {name: values for name, values in self.metrics.items() if self.has_value(name)}
        return Progress(self.frames, simulated_s, hours, gpu_hours, metrics, self.begins, self.measured_at,
                        len(self.mode(Labels).good), self.mode(Labels).bound)  # fmt: skip

    @property
    def whole(self) -> tuple[int, Progress]:
        """Segments that have ended, and what they have in all; frames of those that run are left out."""
        segments, frames, time = 0, 0, 0.0
        for walker in self.walkers.values():
            each = walker.whole
            segments, frames, time = segments + each[0], frames + each[1], time + each[2]
        return segments, Progress(frames, time * self._second)

    @property
    def spent(self) -> dict[str, float]:
        """Seconds that the slots spent, by what they did."""
        seconds = defaultdict[str, float](float)
        for walker in self.walkers.values():
            for what, spent in walker.seconds.items():
                seconds[what] += spent
        return seconds

    def _sum(self, name: str) -> float:
        if name not in self._sums:
            self._sums[name] = sum(getattr(walker, name) for walker in self.walkers.values())
        return self._sums[name]
