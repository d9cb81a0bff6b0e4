"""Slots -> walkers: one long-lived job a slot, replaced when it is lost."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from steersman.apps.walker import STOP
from steersman.bus import TupleSpace
from steersman.engine import tasks
from steersman.engine.bag import Bag
from steersman.engine.jobs import Jobs
from steersman.engine.recorder import Recorder

LOSSES_PER_SLOT = 3  # walkers lost in a row without a single ended segment: something is wrong with all of them


class Crew:
    """The walkers of a run.

    Args:
        run: path of the run directory.
        slots: walkers that run at the same time.
    """

    def __init__(self, run: str, slots: int, recorder: Recorder, jobs: Jobs, bag: Bag, space: TupleSpace) -> None:
        self.slots = slots
        self._run, self._recorder, self._jobs, self._bag, self._space = run, recorder, jobs, bag, space
        self._jobs_by_walker: dict[int, Future[Any]] = {}
        self._stopped: set[str] = set()
        self._losses = 0
        self._cause = ""
        self._ended_at_loss = 0
        self.dismissed = False

    def start(self) -> None:
        for slot in range(self.slots):
            self._hire(slot)

    def advance(self) -> None:
        """Replace walkers that were lost."""
        for walker, job in list(self._jobs_by_walker.items()):
            if job.done():
                del self._jobs_by_walker[walker]
                self._gone(walker, job)

    @property
    def hopeless(self) -> str | None:
        """Why no walker can work, if none can."""
        return self._cause if self._losses >= LOSSES_PER_SLOT * self.slots else None

    @property
    def at_work(self) -> bool:
        return bool(self._jobs_by_walker)

    def stop_segment(self, name: str, reason: str, by: str) -> None:
        self._recorder.record("stop", segment=name, reason=reason, by=by)
        self._space.put(STOP, name)

    def dismiss(self) -> None:
        """Let every walker end its segment, publish and go home."""
        self.dismissed = True
        self._bag.empty(self.slots)
        for walker in self._jobs_by_walker:
            slot = self._recorder.state.walkers[walker].slot
            self._space.put(self._bag.name(slot), -1, {"end": True})
        self.send_home()

    def send_home(self) -> None:
        """Ask the segments that run now to end; one may have begun since the last call."""
        self.advance()
        for walker in self._recorder.state.walkers.values():
            segment = walker.running
            if segment is not None and walker.alive and segment.name not in self._stopped:
                self._stopped.add(segment.name)
                self._space.put(STOP, segment.name)

    def _hire(self, slot: int) -> None:
        number = len(self._recorder.state.walkers)
        self._recorder.record("walker", walker=number, slot=slot)
        self._jobs_by_walker[number] = self._jobs.submit(
            "simulation", tasks.walk, self._run, number, self._bag.name(slot)
        )

    def _gone(self, walker: int, job: Future[Any]) -> None:
        error = job.exception()
        if error is None and self.dismissed:
            return
        self._cause = f"{type(error).__name__}: {error}" if error else "it ended though the run goes on"
        self._recorder.record("lost", walker=walker, cause=self._cause)
        ended = self._recorder.state.ended.total()
        self._losses = self._losses + 1 if ended == self._ended_at_loss else 1
        self._ended_at_loss = ended
        if not self.dismissed and not self.hopeless:
            self._hire(self._recorder.state.walkers[walker].slot)
