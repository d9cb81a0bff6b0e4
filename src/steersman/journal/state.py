"""Records -> the state of a run. It changes by `apply` alone, so a replay gives it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from steersman.journal import records
from steersman.journal.calls import TASKS, Call
from steersman.journal.frame_keys import frame_key
from steersman.journal.records import BadRecord, Record
from steersman.journal.segments import Segment
from steersman.journal.standing import Standing
from steersman.journal.walkers import Broken, Failed, ModelVersion, Outstanding, StageHealth, Walker
from steersman.store import number_of
from steersman.store.names import SegmentName

REPAIRS = (records.Damaged, records.Merged)  # they may come long after the end of the run


class State(Standing):
    """A run as its journal records it.

    Args:
        story: records to begin with.
    """

    def __init__(self, story: Iterable[Record] = ()) -> None:
        super().__init__()
        self._apply: dict[type[Record], Callable[[Any], None]] = {}
        for mode in self.modes:
            self._apply |= mode.takes
        self._apply |= {
            kind: getattr(self, f"_on_{name}") for name, kind in records.KINDS.items() if kind not in self._apply
        }
        for record in story:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Take one record in.

        Raises: BadRecord: it does not fit those before it; one of them is missing, say.
        """
        if not isinstance(record, REPAIRS):
            self.now = record.t
        self._sums.clear()
        try:
            self._apply[type(record)](record)
        except (KeyError, IndexError, ValueError) as error:
            raise BadRecord(record.kind, f"it does not fit the records before it: no {error}") from None

    def _on_run(self, record: records.Run) -> None:
        self.run = record

    def _on_session(self, record: records.Session) -> None:
        self.sessions.append(record)
        self.end, self.failures_in_a_row, self.frameless_in_a_row = None, 0, 0
        if training := self.models.under_way:
            training.epoch = None  # it begins again, maybe with other parameters
        self.pace.begin(record.t, self.worked(record.t))

    def _on_prepared(self, record: records.Prepared) -> None:
        self.prepared, self.known_labels = record.sha256, record.labels

    def _on_called(self, record: records.Called) -> None:
        if record.call:
            self.calls.setdefault(record.call, Call(record))
        self.asked[record.task] = record.call

    def _on_task(self, record: records.Task) -> None:
        self.calls[record.call].done = record

    def _on_walker(self, record: records.Hired) -> None:
        self.walkers[record.walker] = Walker(record.walker, record.slot, record.t, since=record.t, heard=record.t)
        if record.walker < self.next_walker:  # a repair found it later; tables are in the order of their numbers
            self.walkers = dict(sorted(self.walkers.items()))
        self.next_walker = max(self.next_walker, record.walker + 1)

    def _on_joined(self, record: records.Joined) -> None:
        walker = self.walkers[record.walker]
        walker.node, walker.pool, walker.block_ends = record.node, record.pool, record.block_ends
        walker.heard = record.t

    def _on_left(self, record: records.Left) -> None:
        self._gone(self.walkers[record.walker])

    def _on_lost(self, record: records.Lost) -> None:
        """A walker died. What it had committed stays; with `keep`, a segment that was cut short goes on from there.

        Only the segment that ran can have killed it: those before it ended well, and are merely not published yet.
        """
        walker = self.walkers[record.walker]
        running = walker.running
        self._gone(walker)
        self.node_failures[walker.node] += record.blame
        self.killed += record.blame
        for segment in walker.segments[walker.published_segments :]:
            blame = int(record.blame and segment is running)
            if segment.end is not None:  # it had ended, and what it said of that is void
                self.ended -= Counter([segment.how])
            segment.how, segment.end = "lost", max(segment.first, walker.rows_end(segment))
            self.ended["lost"] += 1
            start = self.starts.get(segment.start)
            ours = start is not None and start.segment is segment
            if start is not None and ours and blame and start.record.parent:
                self.deaths[start.record.parent[:2]] += 1
            if start is not None and ours and record.keep and segment.end > segment.first:
                del self.starts[segment.start]
                if not start.given_up:
                    self.broken[segment.start] = Broken(segment, start.record, start.losses + blame)
                walker.keep_partial(segment)
                continue
            walker.leave_out(segment)
            if start is not None and ours:
                self._done_with(segment.start)
                start.segment, start.losses = None, start.losses + blame
                if start.given_up:
                    del self.starts[segment.start]
        walker.partial = 0.0

    def _on_merged(self, record: records.Merged) -> None:
        """A group that was merged again is there no more."""
        self.merged = {name: of for name, of in self.merged.items() if of.isdisjoint(record.walkers)}
        self.merged[record.group] = frozenset(record.walkers)
        self.next_merged = max(self.next_merged, number_of(record.group) + 1)

    def _on_start(self, record: records.Start) -> None:
        renewed = False
        if record.again is not None:
            before = self.starts.get(record.again)
            if before is not None and before.segment is None:  # the same with other parameters, before anybody ran it
                renewed = True
                del self.starts[record.again]
            self._done_with(record.again)
        self.starts[record.start] = Outstanding(record, losses=record.losses)
        self.next_start = max(self.next_start, record.start + 1)
        if record.again is None:
            self.chosen[record.policy] += 1
        for mode in self.modes:
            mode.chosen(record)
        if record.parent and not record.attempt and not renewed:
            self.used.append(frame_key(*record.parent[:2]))
        if record.instead and record.again is None:
            self.used.append(frame_key(*record.instead[:2]))
        if record.pin:
            self.wishes.pinned(record.pin)
        self.decisions.append(record)

    def _on_began(self, record: records.Began) -> None:
        walker = self.walkers[record.walker]
        _expect(walker, len(walker.segments), record.segment)
        if (before := walker.running) is not None:  # the event that it ended was lost with the server
            self._close(before, record.first_row, "finished")
        segment = Segment(walker.number, record.segment, record.start, record.first_row)
        walker.segments.append(segment)
        walker.since = walker.heard = record.t
        self._before_segment(walker, record)
        self._run_in(segment)

    def _on_frames(self, record: records.Published) -> None:
        walker = self.walkers[record.walker]
        for segment in walker.segments[walker.published_segments : record.segments]:
            self._settle(segment)
            walker.simulated += segment.simulated
        self.backlog.publish(record.t, record.frames - walker.frames)
        walker.frames, walker.published_segments, walker.partial = record.frames, record.segments, record.simulated
        if record.reads is not None:
            self.reads = self.reads or record.reads
        walker.segments.pack(walker.published_segments)
        walker.heard = record.t
        if record.t >= self.pace.due:
            self.pace.mark(record.t, self.worked(record.t))

    def _on_ended(self, record: records.Ended) -> None:
        walker = self.walkers[record.walker]
        _expect(walker, len(walker.segments) - (walker.running is not None), record.segment)
        walker.since = walker.heard = record.t
        walker.seconds["read"] += record.read_s
        walker.seconds["ran"] += record.ran_s
        if walker.running is None:  # the event that it began was lost with the server
            walker.segments.append(Segment(walker.number, record.segment, record.start, record.first_row))
            self._run_in(walker.segments[-1])
        segment, failed = walker.segments[-1], record.how == "failed"
        run_ends = record.how == "stopped" and segment.name not in self.stopping  # by nobody who chose it
        self._close(segment, record.end_row, record.how)
        segment.simulated, segment.state, segment.repeats = record.simulated, record.state, record.repeats
        for mode in self.modes:
            mode.ended(record)
        self.leaves_state |= record.state
        if segment.number < walker.published_segments:
            walker.simulated += segment.simulated
        walker.failures_in_a_row = walker.failures_in_a_row + 1 if failed else 0
        self.failures_in_a_row = self.failures_in_a_row + 1 if failed else 0
        self.failing_since = self.failing_since if self.failures_in_a_row > 1 else record.t
        self.frameless_in_a_row = self.frameless_in_a_row + 1 if record.end_row == record.first_row else 0
        self.frameless += self.frameless_in_a_row > 0 and record.how == "finished"
        self.node_failures[walker.node] = self.node_failures[walker.node] + 1 if failed else 0
        self.last_cause = record.cause or self.last_cause
        start = self.starts.get(segment.start)
        if start is not None and start.segment is segment:
            if failed:
                self.failed[segment.start] = Failed(start.record, walker.number)
            elif not self.goes_on_from(record.state) and start.record.parent:  # as if nobody had gone on from there
                self.used.remove(frame_key(*start.record.parent[:2]))
            if record.cut or run_ends:
                self.broken[segment.start] = Broken(segment, start.record, start.losses)

    def _on_blame(self, record: records.Blame) -> None:
        """A start is given up. What its last segment made counts, as that of the tries before it."""
        self._done_with(record.start)
        if (start := self.starts.get(record.start)) and start.segment:
            start.given_up = True
        else:
            self.starts.pop(record.start, None)
        if record.parent:
            self.blamed.add(record.parent[:2])
        self.notes.append(record)

    def _on_aside(self, record: records.Aside) -> None:
        self.aside.add(record.node)
        self.notes.append(record)

    def _on_damaged(self, record: records.Damaged) -> None:
        """Something was set aside, for it was not whole: a model is not used, the frames of a walker do not count."""
        self.notes.append(record)
        self._reopen()
        for model in self.models:
            if model.version == record.model:
                model.accepted, model.reason = False, record.reason
        self.unsound |= record.versions
        if record.file:
            self._take_as_it_is(record.file, record.sha256)
        if record.walker is None:
            return
        walker, lost = self.walkers[record.walker], set(record.segments)
        if lost:
            walker.lose(record.segments, record.simulated)
        else:
            walker.damaged = True
            self._gone(walker)
            walker.segments.leave_out(walker.frames)

        def is_lost(of: int, segment: int) -> bool:
            return of == walker.number and (not lost or segment in lost)

        for number, start in list(self.starts.items()):
            if start.segment is not None and is_lost(start.segment.walker, start.segment.number):
                start.segment = None
            parent = start.record.parent
            if start.segment is None and (start.given_up or (parent and is_lost(parent.walker, parent.segment))):
                del self.starts[number]
        self.broken = {
            n: each for n, each in self.broken.items() if not is_lost(each.segment.walker, each.segment.number)
        }

    def _take_as_it_is(self, name: str, sha256: str) -> None:
        folder, _, rest = name.partition("/")
        if folder == TASKS:
            self.calls.pop(rest.partition("/")[0], None)  # it is made again if a plan still makes it
        elif name == "prepared.pkl":
            self.prepared = sha256
        else:
            files = {**self.run.files, name: sha256}
            self.run = replace(self.run, files={name: digest for name, digest in files.items() if digest})

    def _on_training(self, record: records.Training) -> None:
        self.models.append(ModelVersion(record.model, record.frames, record.t, labels=record.labels))

    def _on_epoch(self, record: records.Epoch) -> None:
        """How far a training is; a late message is of no use."""
        if (training := self.models.under_way) and training.version == record.model:
            training.epoch = record

    def _on_model(self, record: records.Trained) -> None:
        model = {each.version: each for each in self.models[-2:]}[record.model]  # a record of its beginning may be lost
        model.accepted, model.reason, model.fit = record.accepted, record.reason, record

    def _on_scored(self, record: records.Scored) -> None:
        self.scored, self.scored_with = record.frames, record.model
        self.scoring_s += record.took_s
        self.backlog.score(record.frames, of=self.frames)

    def _on_metrics(self, record: records.Metrics) -> None:
        for name, value in record.values.items():
            series = self.metrics.setdefault(name, [])
            if self._measured_with.setdefault(name, self.scored_with) != self.scored_with:
                self.begins.setdefault(name, []).append(len(series))
                self._measured_with[name] = self.scored_with
            series.append(value)
            self.valueless.discard(name)
            self.measured_at.setdefault(name, []).append(self.scored if record.frames is None else record.frames)

    def _on_stage(self, record: records.Stage) -> None:
        stage = self.stages.setdefault(record.stage, StageHealth())
        stage.worked |= record.ok
        if not record.ok and not (stage.failures and stage.cause == record.cause):  # what is said again is no news
            self.notes.append(record)
        stage.failures = 0 if record.ok else stage.failures + 1
        stage.cause = record.cause

    def _on_stop(self, record: records.Stop) -> None:
        self._stop(record)
        self.notes.append(record)

    def _on_tell(self, record: records.Tell) -> None:
        """A person said a word: who, when and what stand in the record."""
        match record.verb:
            case "pause" | "continue":
                self.wishes.pause(record, self.hours(record.t))
            case "stop":
                self._stop(record)
            case "pin":
                self.wishes.pins.append(record)
            case "set":
                self.wishes.settings |= record.settings
                self.well_before = self.ended["finished"] + self.ended["stopped"]
                self._reopen()
                self.pace.begin(record.t, self.worked(record.t))
            case "finish":
                self.wishes.finish = record.who
        for mode in self.modes:
            mode.told(record)
        self.notes.append(record)

    def _on_note(self, record: records.Note) -> None:
        self.notes.append(record)
        self.valueless |= {record.metric} - {""}

    def _on_end(self, record: records.End) -> None:
        self.end = record

    def _stop(self, record: records.Stop | records.Tell) -> None:
        """A segment is to end, if it has not."""
        walker = self.walkers[int(record.segment.removeprefix("w").partition(".")[0])]
        if walker.running is not None and walker.running.name == record.segment:
            self.stopping[record.segment] = record

    def _gone(self, walker: Walker) -> None:
        walker.alive, walker.gone = False, self.now if walker.gone is None else walker.gone
        running = walker.running
        walker.cut = walker.cut or running is not None
        if running is not None and running.number < walker.published_segments:  # the event that it ended was lost
            self._close(running, walker.frames, "finished")
        elif running is not None:
            self.stopping.pop(running.name, None)

    def _run_in(self, segment: Segment) -> None:
        """A start is run in a segment; of several runs of it the last one counts, unless another is published."""
        start = self.starts.get(segment.start)
        if start is None:  # its lease ended too early: another walker has published it
            self.walkers[segment.walker].leave_out(segment)
            return
        if start.segment is not None:
            self.walkers[start.segment.walker].leave_out(start.segment)
        start.segment = segment

    def _close(self, segment: Segment, end: int, how: str) -> None:
        segment.end, segment.how = end, how
        self.ended[how] += 1
        if self.stopping:
            self.stopping.pop(segment.name, None)

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


def _expect(walker: Walker, next_: int, segment: int) -> None:
    """Raises: ValueError: the records of a segment before this one are missing, so that its number would be another."""
    if segment != next_:
        raise ValueError(str(SegmentName(walker.number, next_)))
