"""Slots -> walkers: one long-lived job a slot, replaced when it is lost."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import Any

from steersman.bus import TupleSpace
from steersman.engine.bag import Bag
from steersman.engine.jobs import Jobs, killed
from steersman.engine.reconcile import adopt
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import FULL, RunDirectory
from steersman.worker import tasks
from steersman.worker.walker import ASIDE, BLOCK_ENDS, LEAVE, stop_name

LOSSES_PER_SLOT = 3  # walkers lost in a row without a single ended segment: something is wrong with all of them
NODE_FAILURES = 6  # segments and walkers that failed in a row on one node, while others work


class Crew:
    """The walkers of a run.

    Args:
        slots: walkers that run at the same time.
        hang_s: a segment that says nothing for so long is told to stop.
        keep: a segment that lost its walker goes on from its last committed frame; else its start is run again.
        own_disks: frames grow on disks of the nodes' own: one that is full is no reason to end the run.
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
        keep: bool,
        own_disks: bool,
    ) -> None:
        self.slots = slots
        self._directory, self._recorder, self._jobs, self._bag, self._space = directory, recorder, jobs, bag, space
        self._hang_s, self._keep, self._own_disks = hang_s, keep, own_disks
        self._jobs_by_walker: dict[int, Future[Any]] = {}
        self._ended: deque[int] = deque()  # walkers whose job is done, as another thread tells
        self._done: list[int] = []
        self._stopped: set[str] = set()
        self._left: set[int] = set()
        self._losses = 0
        self._cause = ""
        self._ended_at_loss = 0
        self.dismissed = False

    def start(self) -> None:
        for slot in range(self.slots):
            self._hire(slot)

    def look(self) -> None:
        """See which walkers are gone; all that they told before is on the bus by now."""
        self._done += [self._ended.popleft() for _ in range(len(self._ended))]

    def advance(self) -> None:
        """Replace walkers that are gone, stop what hangs, set nodes aside that fail everything.

        Raises: OSError: the disk on which all walkers commit their frames is full.
        """
        while self._done:
            walker = self._done.pop(0)
            self._gone(walker, self._jobs_by_walker.pop(walker))
        self._stop_hanging()
        self._set_aside()

    @property
    def hopeless(self) -> str | None:
        """Why no walker can work, if none can."""
        return self._cause if self._losses >= LOSSES_PER_SLOT * self.slots else None

    @property
    def at_work(self) -> bool:
        """Whether a walker that has come is still there; those whose nodes are in the queue have nothing to end."""
        walkers = (self._recorder.state.walkers[number] for number in self._jobs_by_walker)
        return any(walker.has_come for walker in walkers)

    def stop_segment(self, name: str, reason: str, by: str) -> None:
        self._recorder.record("stop", segment=name, reason=reason, by=by)
        self._space.put(stop_name(name), name)

    def dismiss(self) -> None:
        """Let every walker end its segment, publish and go home; may be tried again when the bus fails it."""
        self._bag.empty(self.slots)
        walkers = self._recorder.state.walkers
        names = [self._bag.name(walkers[number].slot) for number in self._jobs_by_walker]
        self._space.put_many((name, -1, {"end": True}) for name in names)
        self.dismissed = True

    def send_home(self) -> None:
        """Ask the segments that run now to end; one may have begun since the last call."""
        self.advance()
        for walker in self._recorder.state.walkers.values():
            segment = walker.running
            if segment is not None and walker.alive and segment.name not in self._stopped:
                self._stopped.add(segment.name)
                self._space.put(stop_name(segment.name), segment.name)

    def _hire(self, slot: int) -> None:
        number = len(self._recorder.state.walkers)
        self._recorder.record("walker", walker=number, slot=slot)
        walker = self._recorder.state.walkers[number]
        job = self._jobs.submit(
            "simulation", tasks.walk, str(self._directory.path), number, self._bag.name(slot),
            heard=lambda: walker.pool if walker.has_come else None,
        )  # fmt: skip
        self._jobs_by_walker[number] = job
        job.add_done_callback(lambda _: self._ended.append(number))

    def _gone(self, number: int, job: Future[Any]) -> None:
        walker = self._recorder.state.walkers[number]
        adopt(self._recorder, self._directory.frames, walker)
        error = job.exception()
        if error is None:
            self._recorder.record("left", walker=number, reason=job.result())
            if job.result() == BLOCK_ENDS:  # the next would come to the same block, and leave at once
                self._jobs.hold("simulation", walker.pool)
            if not self.dismissed and (job.result() != ASIDE or not self._keep):
                self._hire(walker.slot)
            return
        self._cause = f"{type(error).__name__}: {error}"
        self._recorder.record("lost", walker=number, cause=self._cause, keep=self._keep, blame=killed(error))
        if isinstance(error, OSError) and error.errno in FULL and not self._own_disks:
            raise error
        ended = self._recorder.state.ended.total()
        self._losses = self._losses + 1 if ended == self._ended_at_loss else 1
        self._ended_at_loss = ended
        if not self.dismissed and not self.hopeless:
            self._hire(walker.slot)

    def _stop_hanging(self) -> None:
        """Ask politely; a process that does not hear it ends itself soon after, see worker/watchdog.py."""
        state, now = self._recorder.state, self._recorder.now()
        for number in self._jobs_by_walker:
            walker = state.walkers[number]
            silent_s = now - walker.heard
            if silent_s <= self._hang_s:
                continue
            segment = walker.running
            if segment is not None and segment.name not in self._stopped:
                self._stopped.add(segment.name)
                self.stop_segment(segment.name, f"it has committed nothing for {silent_s:.0f} s", by="engine")

    def _set_aside(self) -> None:
        state = self._recorder.state
        ours = [state.walkers[number] for number in self._jobs_by_walker]
        good = {walker.node for walker in ours if walker.node and not state.node_failures[walker.node]} - state.aside
        for node, failures in list(state.node_failures.items()):
            if node in state.aside or failures < NODE_FAILURES or not good:
                continue
            reason = f"node {node} is set aside: {failures} segments failed there in a row, others work"
            self._recorder.record("aside", node=node, reason=reason)
        for walker in ours:
            if walker.node in state.aside and walker.number not in self._left:
                self._left.add(walker.number)
                self._jobs.hold("simulation", walker.pool)
                self._space.put(LEAVE, walker.number)
