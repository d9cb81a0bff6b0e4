"""A run: events come from the bus, go into the journal, and whatever is due then is done.

The loop is level-triggered: `_advance` looks at the state and begins what is due, so nothing depends on the order in
which events arrive. A fresh run is the resume of an empty journal; the death of Parsl is a resume without a new driver.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from steersman.bus import ALL, BusError, BusTimeout, TupleSpace
from steersman.engine import orphans
from steersman.engine.bag import Bag
from steersman.engine.crew import Crew
from steersman.engine.errors import ExecutorLost
from steersman.engine.jobs import Jobs, lost
from steersman.engine.learner import Learner
from steersman.engine.people import TELL, People
from steersman.engine.process import Interrupts, allow_many_files, give_large_arrays_back
from steersman.engine.reconcile import catch_up, reconcile
from steersman.engine.servers import RunServers
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site
from steersman.journal.lock import Lock
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory, needing_room
from steersman.journal.state import State
from steersman.stages.workflow import Params, Workflow
from steersman.store import MOVE_EVERY_S
from steersman.worker import tasks
from steersman.worker.publisher import EVENT

GATHER_S = 10e-6  # a slot: events gather so long before a step, which takes about 1 us a slot however few there are
QUIET_S = 5.0  # after so long without a word from anybody the bus is tried
TICK_S = 0.25  # the display is drawn, and jobs are looked at, at least this often
SYNC_S = 1.0  # the journal is on the disk at most this much later: what a power failure may cost
GOODBYE_S = 120.0  # walkers get this long to end their segments and publish
FAILURES = 6  # segments that fail in a row, while none has ended well, end the run
UNTRIED = 30  # times as many until every slot has ended one: a broken node may be the first to come
BEGINS_LEASES = 2  # a job that workers were given begins within so many leases, or they are replaced
PARSLS = 5  # that may be lost in a row without a frame between: what is wrong will not go away
PREPARE_TRIES = 3  # workers may die while they prepare the start; who kills each of so many is prepare itself
PATIENCE_S = 2.0  # a server that is silent for so long is looked after
INTERRUPTED = ("interrupted", "by Ctrl-C or a signal; `steersman resume` goes on")

Show = Callable[[State], None]


class Run:
    """Executes a workflow in its run directory.

    Args:
        recorder: journal and state; the state is empty for a new run, replayed for a resumed one.
        rounds: synchronous order that repeats bit for bit from the seed.
        show: called with the state a few times a second.
    """

    def __init__(
        self,
        directory: RunDirectory,
        workflow: Workflow,
        params: Params,
        site: Site,
        recorder: Recorder,
        *,
        seed: int,
        rounds: bool = False,
        bus_url: str | None = None,
        show: Show = lambda state: None,
    ) -> None:
        self.directory, self.workflow, self.params, self.site = directory, workflow, params, site
        self.recorder, self.state = recorder, recorder.state
        self.seed, self.rounds, self.bus_url, self.show = seed, rounds, bus_url, show
        self.stop_rule = workflow.stop_rule(params)
        self.slots = site.simulation.count
        self.lock = Lock(directory.path)
        self.interrupts = Interrupts()
        self._parsls_lost, self._frames_at_loss = 0, -1
        self._synced = 0.0
        self._heard = 0.0

    def execute(self) -> State:
        """Run to the end and return the last state; `state.end` says how it ended.

        Raises: RunIsLocked: another process drives this run. NoRoom: the disk is full, read-only, or the like.
            KeyboardInterrupt: at a second Ctrl-C.
        """
        path = self.directory.path
        allow_many_files(path)
        give_large_arrays_back()
        with needing_room(path), self.lock.held(), orphans.guarded(path), self.interrupts:
            self._execute()
        return self.state

    def _execute(self) -> None:
        left_over = orphans.reap_earlier(self.directory.path)
        self._record_session(left_over)
        try:
            with RunServers(self.directory, self.site, self.recorder, self.bus_url) as self.servers:
                self.space = TupleSpace.connect(self.directory.bus, patience_s=PATIENCE_S)
                end = None
                while end is None:
                    end = self._work()
        except KeyboardInterrupt:
            reason = "at once, by a second Ctrl-C or signal; `steersman resume` goes on"
            self.recorder.record("end", outcome="interrupted", reason=reason)
            raise
        self.recorder.record("end", outcome=end[0], reason=end[1])
        self.recorder.journal.sync()

    def _work(self) -> tuple[str, str] | None:
        """Work with one Parsl until the end of the run, or of Parsl; None when it is to be started again."""
        self._clear_bus()
        try:
            self.jobs = Jobs(
                parsl_config(self.site, self.directory.parsl), self.space, self.directory.bus,
                begins_s=BEGINS_LEASES * self.site.lease_s,
            )  # fmt: skip
        except ExecutorLost as error:
            orphans.reap_earlier(self.directory.path, keep=self.servers.pids)
            return self._start_again(error)
        cause = "it was still at work when the run ended"
        try:
            return self._prepare() or self._couple()
        except ExecutorLost as error:
            cause = str(error)
            return self._start_again(error)
        finally:
            self.jobs.close()
            orphans.reap_earlier(self.directory.path, keep=self.servers.pids)  # they might still commit something
            if self.interrupts.count < 2:  # else a record may be in the journal and not in the state, as resume mends
                reconcile(self.recorder, self.directory.frames, keep=not self.rounds, cause=cause)

    def _start_again(self, error: ExecutorLost) -> tuple[str, str] | None:
        """Tell it; `anew` tells a replay that the scores are read back and ranked anew, as in a new session.

        Returns: outcome and reason where it would be in vain, or somebody ended the run meanwhile.
        """
        if self.interrupts.count:
            return INTERRUPTED
        self._parsls_lost = self._parsls_lost + 1 if self.state.frames == self._frames_at_loss else 1
        self._frames_at_loss = self.state.frames
        if self._parsls_lost == PARSLS:
            return "failed", f"{error}, {PARSLS} times in a row without a frame between; see {self.directory.parsl}"
        self.recorder.record("note", text=f"{error}; Parsl is started again", anew=True)
        return None

    def _prepare(self) -> tuple[str, str] | None:
        """Have the first start made; a worker that dies meanwhile may have been killed by anything, and is no end."""
        if self.directory.prepared.exists() or self.workflow.prepare_function is None:
            return None
        for _ in range(PREPARE_TRIES):
            job = self.jobs.submit("simulation", tasks.prepare, str(self.directory.path))
            if end := self._await(job):
                return end
            error = job.exception()
            if not lost(error):
                break
            self.recorder.note(f"who prepared the start was lost: {error}")
        return ("failed", f"prepare: {type(error).__name__}: {error}") if error else None

    def _await(self, job: Future[Any]) -> tuple[str, str] | None:
        while not job.done() and not self.interrupts.count:
            try:
                self._hear()
            except BusError as trouble:
                self.servers.mend(trouble)
            self._check_executors()
            self.show(self.state)
        if self.interrupts.count:
            return "interrupted", "while the start was being prepared"
        return ("failed", self.jobs.hopeless) if self.jobs.hopeless else None

    def _couple(self) -> tuple[str, str]:
        """The loop; returns outcome and reason."""
        self.bag = Bag(
            self.recorder, self.space, self.workflow.steering, self.directory.decisions,
            seed=self.seed, rounds=self.rounds,
        )  # fmt: skip
        assert self.workflow.simulation is not None
        late_s = MOVE_EVERY_S if self.site.simulation.scratch else 0.0  # frames are heard of so much later
        self.crew = Crew(
            self.directory, self.slots, self.recorder, self.jobs, self.bag, self.space,
            hang_s=self.workflow.simulation.hang_s + late_s, keep=not self.rounds,
            own_disks=bool(self.site.simulation.scratch),
        )  # fmt: skip
        self.learner = Learner(
            self.directory, self.workflow, self.params, self.recorder, self.jobs, self.site, serial=self.rounds
        )
        self.people = People(self)
        try:
            with threadpool_limits(1):  # threads that share a core with walkers wait for each other
                self._refill()
                self.crew.start()
                while (end := self._end()) is None:
                    self._step(self._advance)
                self._say_goodbye()
        finally:
            self.bag.close()
        return end

    def _clear_bus(self) -> None:
        """Whatever an earlier session left on the bus goes."""
        for name in self.space.names():
            if not name.startswith(TELL):
                self.space.clear(name)

    def _refill(self) -> None:
        """What the state says is put on the bus."""
        self.people.apply_settings()
        self._offer_again()

    def _offer_again(self) -> None:
        if not self.state.paused and not self.crew.dismissed:
            self.bag.restore()

    def _step(self, act: Callable[[], None]) -> None:
        """Wait for events, write them down, act; the server is brought back if it is gone."""
        try:
            self.crew.look()
            self._hear()
            self._check_executors()
            self.people.listen()
            self.servers.look()
            if self.servers.troubles:
                catch_up(self.recorder, self.directory.frames)
                self._offer_again()
                self.servers.troubles.clear()
            act()
        except BusError as error:
            self.servers.mend(error)
        if time.monotonic() - self._synced > SYNC_S:
            self._synced = time.monotonic()
            self.recorder.journal.sync()
        self.show(self.state)

    def _check_executors(self) -> None:
        if broken := self.jobs.broken:
            raise ExecutorLost(broken)
        for told in [*self.jobs.newly_waiting(), *self.jobs.end_stuck_blocks()]:
            self.recorder.note(told)

    def _events(self) -> list[tuple[str, dict[str, Any]]]:
        time.sleep(min(GATHER_S * self.slots, TICK_S))
        try:
            taken = self.space.take_many(EVENT, str, dict, n=ALL, timeout_s=TICK_S)
        except BusTimeout:
            if time.monotonic() - self._heard > QUIET_S:
                self._heard = time.monotonic()
                self.space.put(EVENT, "job", {})  # a server that takes nothing any more tells why
            return []
        self._heard = time.monotonic()
        return [(kind, fields) for _, kind, fields in taken]

    def _hear(self) -> None:
        for kind, fields in self._events():
            self._take(kind, fields)

    def _take(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "job":
            if fields:
                self.jobs.began(fields["job"], fields["manager"])
            return
        if kind == "epoch":
            self.recorder.record(kind, **fields)
            return
        walker = self.state.walkers[fields["walker"]]
        if kind == "frames" and walker.alive and not walker.heard_of(fields["segments"]):
            catch_up(self.recorder, self.directory.frames)
        if walker.alive and not walker.told(kind, fields):  # else it was given up, and what it had committed is known
            self.recorder.record(kind, **fields)

    def _advance(self) -> None:
        self.crew.advance()
        assert self.workflow.simulation is not None
        self.bag.mend(self.workflow.simulation.retries)
        if self.rounds and not self._round_is_over():
            return
        fresh = self.learner.advance()
        if fresh:
            self._prune()
        if self.rounds and self.learner.busy:
            return
        if self._end() is None and not self.state.paused:
            self.bag.fill(self.learner.scores, self.slots)

    def _round_is_over(self) -> bool:
        """A start is done with when its frames are published."""
        return not self.state.starts and not self.state.busy_segments

    def _prune(self) -> None:
        rule = self.workflow.steering.prune
        scores = self.learner.scores()
        if rule is None or not all(name in scores.values for name in rule.needs):
            return
        for walker in self.state.walkers.values():
            segment = walker.running
            if segment is None or not walker.alive:
                continue
            rows = np.flatnonzero((scores.walker == walker.number) & (scores.segment == segment.number))
            try:
                reason = rule.reason(scores, rows)
            except Exception as error:  # a user's rule may raise anything; the segments go on
                self.recorder.note(f"the prune rule failed, {segment.name} goes on: {type(error).__name__}: {error}")
                return
            if reason:
                self.crew.stop_segment(segment.name, reason, by=type(rule).__name__)

    @property
    def _failures_to_end(self) -> int:
        alive = (walker for walker in self.state.walkers.values() if walker.alive)
        tried = all(any(segment.end is not None for segment in walker.segments) for walker in alive)
        return max(FAILURES, 2 * self.slots) * (1 if tried else UNTRIED)

    def _end(self) -> tuple[str, str] | None:
        if self.interrupts.count:
            return INTERRUPTED
        if self.lock.lost:
            return "interrupted", "another driver has taken this run over"
        if self.state.finish:
            return "finished", f"told by {self.state.finish}"
        if self.jobs.hopeless:
            return "failed", self.jobs.hopeless
        if self.crew.hopeless:
            return "failed", f"every walker was lost: {self.crew.hopeless}"
        if not self.state.ended["finished"] and self.state.failures_in_a_row >= self._failures_to_end:
            return "failed", f"every segment failed: {self.state.last_cause}; see {self.directory.errors}"
        if not self.state.frames and self.state.frameless_in_a_row >= self._failures_to_end:
            ended = f"{self.state.ended.total()} segments have ended, and none left a frame"
            return "failed", f"{ended}: does simulate() append any? A reader of files may look for another name"
        if self.rounds and not (self._round_is_over() and not self.learner.busy):
            return None
        progress = self.state.progress(time.time())
        if reason := self.stop_rule.reason(progress):
            goal = getattr(self.stop_rule, "met", lambda _: self.stop_rule)(progress).goal
            return ("goal" if goal else "budget"), reason
        return None

    def _say_goodbye(self) -> None:
        deadline = time.monotonic() + GOODBYE_S
        while not self.crew.dismissed and time.monotonic() < deadline:
            self._step(self.crew.dismiss)
        whole = self.rounds and self.interrupts.count  # the round is to be gone on with: its segments stay whole
        while self.crew.at_work and time.monotonic() < deadline:
            self._step(self.crew.advance if whole else self.crew.send_home)
        with contextlib.suppress(BusError):
            self._hear()
        while not self.interrupts.count and time.monotonic() < deadline:
            self.learner.advance()
            if not self.learner.busy:
                break
            self._step(lambda: None)

    def _record_session(self, left_over: int) -> None:
        after = {"after": self.state.now} if self.state.sessions else {}
        if not self.state.run:
            simulation = self.workflow.simulation
            assert simulation is not None
            time_variable = simulation.variables.get("time")
            self.recorder.record(
                "run", workflow=self.workflow.name, seed=self.seed, rounds=self.rounds, slots=self.slots,
                guided=self.workflow.steering.guided, gpus=self.site.gpus,
                time_unit=time_variable.units if time_variable else "1",
            )  # fmt: skip
        self.recorder.record("session", host=platform.node(), pid=os.getpid(), **after)
        if self.lock.took_over:
            self.recorder.note(self.lock.took_over)
        if left_over:
            self.recorder.note(f"{left_over} processes of an earlier driver were still there; they were ended")
        if self.recorder.journal.repaired:
            self.recorder.note(f"the torn end of the journal was cut off: {self.recorder.journal.repaired[:80]!r}")
        adopted = reconcile(self.recorder, self.directory.frames, keep=not self.rounds, cause="its driver died")
        if adopted:
            self.recorder.note(f"{adopted} frames were committed that the journal did not know of; they count")
