"""Slots -> walkers: one long-lived job a slot, replaced when it is lost."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from steersman.bus import TupleSpace
from steersman.engine.bag import Bag
from steersman.engine.jobs import Jobs, killed
from steersman.engine.reconcile import adopt
from steersman.journal.recorder import Recorder
from steersman.journal.records import Aside, Hired, Left, Lost, Stop
from steersman.journal.run_directory import FULL, RunDirectory
from steersman.journal.walkers import Walker
from steersman.stages.segment import PATIENCE_S
from steersman.store import finish
from steersman.system.errors import told
from steersman.worker import tasks
from steersman.worker.last_words import last_words
from steersman.worker.orders import HANGS, LEAVE, NEWEST, stop_name
from steersman.worker.walker import ASIDE, BLOCK_ENDS, REPLACED

LOSSES_PER_SLOT = 3  # walkers lost in a row without a single ended segment: something is wrong with all of them
NODE_FAILURES = 6  # segments and walkers that failed in a row on one node, while others work
LATE_S = 20.0  # for which segments may go on when the run is to end, before it is said
MOST_NAMES = 4  # of them
WALKER_FAILURES = 3  # segments that failed in a row on one walker: its process is replaced


class Crew:
    """The walkers of a run.

    Args:
        slots: walkers that run at the same time.
        hang_s: a segment that says nothing for so long is asked to stop.
        starts_s: a walker has come within so long, once another has; until it does, others stand in for it.
        keep: a segment that lost its walker goes on from its last committed frame; else its start is run again.
        own_disks: frames grow on disks of the nodes' own: one that is full is no reason to end the run.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        directory: RunDirectory,
        slots: int,
        recorder: Recorder,
        jobs: Jobs,
        bag: Bag,
        space: TupleSpace,
        *,
        hang_s: float,
        starts_s: float = math.inf,
        keep: bool,
        own_disks: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = slots
        self._directory, self._recorder, self._jobs, self._bag, self._space = directory, recorder, jobs, bag, space
        self._starts_s, self._hired, self._came = starts_s, dict[int, float](), math.inf  # when, by our clock
        self._hang_s, self._keep, self._own_disks, self._clock = hang_s, keep, own_disks, clock
        self._jobs_by_walker: dict[int, Future[Any]] = {}
        self._ended: deque[int] = deque()  # walkers whose job is done, as another thread says
        self._done: list[int] = []
        self._heard: dict[int, tuple[float, float]] = {}  # when a walker was heard: by the journal, and by our clock
        self._said: set[tuple[Any, ...]] = set()  # words for walkers that a server has
        self._newest = 0  # version of the model that walkers were told of
        self._leaving: dict[int, str] = {}  # walkers that are to go home, and why
        self._losses = 0
        self._cause = ""
        self._made_at_loss = 0, 0  # frames, and segments that ended otherwise
        self._present = set[int]()  # walkers that had come when all were dismissed
        self.dismissed = self._waited = False
        self._due = math.inf  # when the run was to end

    def start(self) -> None:
        for slot in range(self.slots):
            self._hire(slot)

    def look(self) -> None:
        """See which walkers are gone; all that they sent before is on the bus by now."""
        self._done += [self._ended.popleft() for _ in range(len(self._ended))]

    def advance(self) -> None:
        """Replace walkers that are gone, stop what is to stop, send home who fails everything.

        Raises: OSError: the disk on which all walkers commit their frames is full. BusError: it is done again.
        """
        while self._done:
            walker = self._done.pop(0)
            self._gone(walker, self._jobs_by_walker.pop(walker))
        self._stop_hanging()
        self._set_aside()
        self._replace_failing()
        self._take_back()
        self._tell_newest()
        for number, why in self._leaving.items():
            self._say(LEAVE, number, why)
        for name in self._recorder.state.stopping:
            self._say(stop_name(name), name)

    def doubt(self) -> None:
        """A server was lost, and with it the words that it held."""
        self._said.clear()
        self._newest = 0

    @property
    def hopeless(self) -> str:
        """Why no walker can work, if none can."""
        too_many = self._losses >= LOSSES_PER_SLOT * self.slots
        return f"every walker was lost: {self._cause}" if too_many else ""

    @property
    def at_work(self) -> bool:
        """Whether a walker is still there that had come when all were dismissed, or that runs a segment.

        The others have nothing to end: their nodes are in the queue, or they come now. Of thousands some always do.
        """
        return any(walker.number in self._present or walker.running for walker in self._ours)

    def stop_segment(self, name: str, reason: str, by: str) -> None:
        """Have a segment end; its walker hears of it in the next step."""
        if name not in self._recorder.state.stopping:
            self._recorder.record(Stop(segment=name, reason=reason, by=by))

    def stand_ins(self) -> dict[int, int]:
        """Slots whose walker has not come in time, each with a slot whose walker has."""
        ours, now = self._ours, self._clock()
        present = sorted(walker.slot for walker in ours if walker.has_come)
        if present:
            self._came = min(self._came, now)
        since = {walker.slot: max(self._hired[walker.number], self._came) for walker in ours if not walker.has_come}
        absent = sorted(slot for slot, from_when in since.items() if now - from_when > self._starts_s)
        return {slot: present[i % len(present)] for i, slot in enumerate(absent)} if present else {}

    def dismiss(self, *, whole: bool) -> None:
        """Let every walker publish and go home; to be called until none is at work, for a server may forget.

        Args:
            whole: segments go on to their end; else those that run now are asked to end.
        """
        ends = {("end", walker.number): self._bag.name(walker.slot) for walker in self._ours}
        if not ends.keys() <= self._said:
            self._bag.align(self.slots, offered=False)
            self._space.put_many((name, -1, {"end": True}) for name in ends.values())
            self._said |= ends.keys()
        if not self.dismissed:
            self._present = {walker.number for walker in self._ours if walker.has_come}
        self.dismissed = True
        self.advance()
        if whole:
            return
        for segment in self._recorder.state.running:
            self._say(stop_name(segment.name), segment.name)
        self.wait_for_ends(
            f"after {PATIENCE_S:.0f} s a segment that does not look at out.stopped ends at its next frame"
        )

    def wait_for_ends(self, when: str) -> None:
        """Say once which segments go on though the run is to end, and when they will end."""
        self._due, running = min(self._due, self._clock()), self._recorder.state.running
        if running and not self._waited and self._clock() - self._due > LATE_S:
            self._waited, names = True, ", ".join(segment.name for segment in running[:MOST_NAMES])
            more = f" and {len(running) - MOST_NAMES} more" if len(running) > MOST_NAMES else ""
            self._recorder.note(f"the run is to end, and {names}{more} went on for {LATE_S:.0f} s: {when}")

    @property
    def _ours(self) -> list[Walker]:
        return [self._recorder.state.walkers[number] for number in self._jobs_by_walker]

    def _hire(self, slot: int) -> None:
        state = self._recorder.state
        number = state.next_walker
        self._recorder.record(Hired(walker=number, slot=slot))
        walker = state.walkers[number]
        job = self._jobs.submit(
            "simulation", tasks.walk, str(self._directory.path), number, self._bag.name(slot), state.prepared,
            heard=lambda: walker.pool if walker.has_come else None,
        )  # fmt: skip
        self._jobs_by_walker[number], self._hired[number] = job, self._clock()
        job.add_done_callback(lambda _: self._ended.append(number))

    def _gone(self, number: int, job: Future[Any]) -> None:
        walker = self._recorder.state.walkers[number]
        adopt(self._recorder, self._directory.frames, walker)
        finish(self._directory.frames.path / walker.name)
        error, why = job.exception(), self._leaving.pop(number, "")
        if error is None or why == REPLACED:
            reason = why if error else job.result()
            self._recorder.record(Left(walker=number, reason=reason))
            if reason == BLOCK_ENDS:  # the next would come to the same block, and leave at once
                self._jobs.hold("simulation", walker.pool)
            if not self.dismissed and (reason != ASIDE or not self._keep):
                self._hire(walker.slot)
            return
        words = last_words(self._directory.errors, number) if killed(error) else ""
        self._cause = " ".join(filter(None, (told(error), words)))
        self._recorder.record(Lost(walker=number, cause=self._cause, keep=self._keep, blame=killed(error)))
        if isinstance(error, OSError) and error.errno in FULL and not self._own_disks:
            raise error
        state = self._recorder.state
        progress = state.frames, state.ended.total() - state.ended["lost"]
        self._losses = self._losses + 1 if progress == self._made_at_loss else 1
        self._made_at_loss = progress
        if not self.dismissed and not self.hopeless:
            self._hire(walker.slot)

    def _say(self, *word: Any) -> None:
        """Put a word for a walker on the bus, once; again when a server was lost."""
        if word not in self._said:
            self._space.put(*word)
            self._said.add(word)

    def _tell_newest(self) -> None:
        """Let long segments know that there is a newer model (`out.outdated`)."""
        if (newest := self._recorder.state.models.newest) != self._newest:
            while self._space.take_nowait(NEWEST, int) is not None:
                pass
            self._space.put(NEWEST, newest)
            self._newest = newest

    def _take_back(self) -> None:
        """Take the words off the bus that nobody is left to hear: of segments that have ended, of walkers that went."""
        if not self._said:
            return
        heard_by = {segment.name for segment in self._recorder.state.running} | self._jobs_by_walker.keys()
        for word in [word for word in self._said if word[0] != "end" and word[1] not in heard_by]:
            self._space.take_nowait(*word)
            self._said.remove(word)

    def _stop_hanging(self) -> None:
        """Ask politely; a process that does not hear it ends itself soon after, see worker/watchdog.py."""
        now = self._clock()
        for walker in self._ours:
            heard = self._heard.get(walker.number)
            if heard is None or heard[0] != walker.heard:
                heard = self._heard[walker.number] = walker.heard, now
            silent_s = now - heard[1]
            if silent_s > self._hang_s and walker.running is not None:
                reason = f"it has committed nothing for {silent_s:.0f} s"
                self._say(HANGS, walker.running.name, walker.frames, reason)
                self.stop_segment(walker.running.name, reason, by="engine")

    def _set_aside(self) -> None:
        state, ours = self._recorder.state, self._ours
        good = {walker.node for walker in ours if walker.node and not state.node_failures[walker.node]} - state.aside
        for node, failures in list(state.node_failures.items()):
            if node in state.aside or failures < NODE_FAILURES or not good:
                continue
            reason = f"node {node} is set aside: {failures} segments failed there in a row, while other nodes work"
            self._recorder.record(Aside(node=node, reason=reason))
        for walker in ours:
            if walker.node in state.aside and self._leaving.get(walker.number) != ASIDE:
                self._leaving[walker.number] = ASIDE
                self._jobs.hold("simulation", walker.pool)

    def _replace_failing(self) -> None:
        """A process may be what is broken, with a context of its GPU that died, say: another takes its slot."""
        for walker in self._ours:
            if walker.failures_in_a_row >= WALKER_FAILURES and walker.number not in self._leaving:
                self._leaving[walker.number] = REPLACED
