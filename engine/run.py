"""A run: events come from the bus, go into the journal, and whatever is due then is done.

The loop is level-triggered: `_advance` looks at the state and begins what is due, so nothing depends on the order in
which events arrive, and a resumed run goes on from the replayed state.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from steersman.apps.walker import EVENT
from steersman.bus import BusError, BusTimeout, Server, TupleSpace
from steersman.engine import tasks
from steersman.engine.bag import Bag
from steersman.engine.crew import Crew
from steersman.engine.jobs import Jobs
from steersman.engine.learner import Learner
from steersman.engine.recorder import Recorder
from steersman.engine.run_directory import RunDirectory
from steersman.engine.state import State
from steersman.engine.workflow import Params, Workflow
from steersman.executors.site import Site, parsl_config

TICK_S = 0.25  # the display is drawn, and jobs are looked at, at least this often
GOODBYE_S = 120.0  # walkers get this long to end their segments and publish
FAILURES = 6  # segments that fail in a row, while none has ended well, end the run

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
        self._interrupts = 0

    def execute(self) -> State:
        """Run to the end and return the last state; `state.end` says how it ended."""
        self._record_session()
        with self._interruptible():
            self._server = Server.start(self.directory.bus, url=self.bus_url)
            try:
                self.space = TupleSpace.connect(self.directory.bus)
                self._work()
            finally:
                self._server.stop()
        return self.state

    def _work(self) -> None:
        self.jobs = Jobs(parsl_config(self.site, self.directory.parsl), self.space)
        try:
            end = self._prepare() or self._couple()
        finally:
            self.jobs.close()
        self.recorder.record("end", outcome=end[0], reason=end[1])
        self.recorder.journal.sync()

    def _prepare(self) -> tuple[str, str] | None:
        if self.directory.prepared.exists() or self.workflow.prepare_function is None:
            return None
        job = self.jobs.submit("simulation", tasks.prepare, str(self.directory.path))
        while not job.done() and not self._interrupts:
            self._events()
            self.show(self.state)
        if self._interrupts:
            return "interrupted", "while the start was being prepared"
        if error := job.exception():
            return "failed", f"prepare: {type(error).__name__}: {error}"
        return None

    def _couple(self) -> tuple[str, str]:
        """The loop; returns outcome and reason."""
        self.bag = Bag(
            self.recorder, self.space, self.workflow.steering, self.directory.decisions,
            seed=self.seed, rounds=self.rounds,
        )  # fmt: skip
        self.crew = Crew(str(self.directory.path), self.slots, self.recorder, self.jobs, self.bag, self.space)
        self.learner = Learner(self.directory, self.workflow, self.params, self.recorder, self.jobs, serial=self.rounds)
        self.crew.start()
        while (end := self._end()) is None:
            self._step(self._advance)
        self._say_goodbye()
        self.bag.close()
        return end

    def _step(self, act: Callable[[], None]) -> None:
        """Wait for events, write them down, act; the server is brought back if it is gone."""
        try:
            for kind, fields in self._events():
                self._take(kind, fields)
            act()
        except BusError as error:
            self._mend_bus(error)
        self.show(self.state)

    def _events(self) -> list[tuple[str, dict[str, Any]]]:
        try:
            return [
                (kind, fields) for _, kind, fields in self.space.take_many(EVENT, str, dict, n=1000, timeout_s=TICK_S)
            ]
        except BusTimeout:
            return []

    def _take(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "job":
            return
        attempt = self.state.starts.get(fields.get("start", -1))
        self.recorder.record(kind, **fields)
        if kind == "ended" and fields["how"] == "failed" and attempt and not self.crew.dismissed:
            self._retry_or_blame(attempt.record)

    def _retry_or_blame(self, failed: dict[str, Any]) -> None:
        assert self.workflow.simulation is not None
        tried = failed.get("attempt", 0) + 1
        if tried <= self.workflow.simulation.retries:
            self.bag.retry(failed, tried)
        elif failed["parent"]:
            self.recorder.record("blame", parent=failed["parent"])

    def _advance(self) -> None:
        self.crew.advance()
        if self.rounds and not self._round_is_over():
            return
        fresh = self.learner.advance()
        if fresh:
            self._prune()
        if self.rounds and self.learner.busy:
            return
        if self._end() is None:
            self.bag.fill(self.learner.scores(), self.slots)

    def _round_is_over(self) -> bool:
        return not self.state.starts  # a start is done with when its frames are published

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
            if reason := rule.reason(scores, rows):
                self.crew.stop_segment(segment.name, reason, by=type(rule).__name__)

    def _end(self) -> tuple[str, str] | None:
        if self._interrupts:
            return "interrupted", "by Ctrl-C or a signal; `steersman resume` goes on"
        if self.crew.hopeless:
            return "failed", f"every walker was lost: {self.crew.hopeless}"
        if not self.state.ended["finished"] and self.state.failures_in_a_row >= max(FAILURES, 2 * self.slots):
            return "failed", f"every segment failed: {self.state.last_cause}; see {self.directory.errors}"
        if self.rounds and not (self._round_is_over() and not self.learner.busy):
            return None
        if reason := self.stop_rule.reason(self.state.progress):
            goal = getattr(self.stop_rule, "met", lambda _: self.stop_rule)(self.state.progress).goal
            return ("goal" if goal else "budget"), reason
        return None

    def _say_goodbye(self) -> None:
        self.crew.dismiss()
        deadline = time.monotonic() + GOODBYE_S
        while self.crew.at_work and time.monotonic() < deadline and self._interrupts < 2:
            self._step(self.crew.send_home)
        with contextlib.suppress(BusError):
            for kind, fields in self._events():
                self._take(kind, fields)
        while not self._interrupts and time.monotonic() < deadline:
            self.learner.advance()
            if not self.learner.busy:
                break
            self._step(lambda: None)

    def _mend_bus(self, error: BusError) -> None:
        if self._server.alive():
            self.recorder.note(f"bus: {error}")
            time.sleep(TICK_S)
            return
        self.recorder.note("the bus server is gone; it is started again")
        self._server = Server.start(self.directory.bus, url=self.bus_url)
        self.bag.restore()

    def _record_session(self) -> None:
        after = {"after": self.state.now} if self.state.sessions else {}
        if not self.state.run:
            simulation = self.workflow.simulation
            assert simulation is not None
            time_variable = simulation.variables.get("time")
            self.recorder.record(
                "run", workflow=self.workflow.name, seed=self.seed, rounds=self.rounds, slots=self.slots,
                guided=self.workflow.steering.guided, gpus=self.site.simulation.gpus + self.site.training.gpus,
                time_unit=time_variable.units if time_variable else "1",
            )  # fmt: skip
        self.recorder.record("session", host=platform.node(), pid=os.getpid(), **after)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C and TERM end the run in good order; a second one stops at once."""

        def interrupt(number: int, frame: Any) -> None:
            self._interrupts += 1
            if self._interrupts > 2:
                raise KeyboardInterrupt

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
