"""A run: its sessions, its bus servers, and Parsl, which is started again when it dies.

A fresh run is the resume of an empty journal; the death of Parsl is a resume without a new driver.
"""

from __future__ import annotations

import os
import platform

from steersman.bus import TupleSpace
from steersman.engine import orphans
from steersman.engine.driver import Driver, Show
from steersman.engine.errors import ExecutorLost
from steersman.engine.inbox import TELL
from steersman.engine.jobs import Jobs
from steersman.engine.process import Interrupts, allow_many_files, give_large_arrays_back
from steersman.engine.reconcile import reconcile
from steersman.engine.servers import RunServers
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site
from steersman.journal import manifest, run_directory
from steersman.journal.lock import Lock
from steersman.journal.recorder import Recorder
from steersman.journal.records import End, Note, Record, Session, Tell
from steersman.journal.records import Run as RunRecord
from steersman.journal.run_directory import RunDirectory, needing_room
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.workflow import Params, Workflow
from steersman.steering import StopRule

BEGINS_LEASES = 2  # a job that workers were given begins within so many leases, or they are replaced
PARSLS = 5  # that may be lost in a row without a frame between: what is wrong will not go away
PATIENCE_S = 2.0  # a server that is silent for so long is looked after


class Run:
    """Executes a workflow in its run directory.

    Args:
        recorder: journal and state; the state is empty for a new run, replayed for a resumed one.
        rounds: synchronous order that repeats bit for bit from the seed.
        show: called with the state and the stop rule a few times a second.
        told: parameters that a person set to go on with.
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
        show: Show = lambda state, rule: None,
        told: Tell | None = None,
    ) -> None:
        self.directory, self.workflow, self.params, self.site = directory, workflow, params, site
        self.recorder, self.state = recorder, recorder.state
        self.seed, self.rounds, self.bus_url, self.show, self.told = seed, rounds, bus_url, show, told
        self.slots = site.simulation.count
        self.lock = Lock(directory.path)
        self.interrupts = Interrupts()
        self._parsls_lost, self._frames_at_loss = 0, -1

    @property
    def stop_rule(self) -> StopRule:
        """When it ends, by the parameters of now."""
        return self.workflow.stop_rule(loading.changed(self.workflow, self.params, self.state.settings))

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
        manifest.unseal(self.directory)
        self._record_session(left_over)
        try:
            with RunServers(self.directory, self.site, self.recorder, self.bus_url) as self._servers:
                self._space = TupleSpace.connect(self.directory.bus, patience_s=PATIENCE_S)
                end = None
                while end is None:
                    end = self._work()
        except KeyboardInterrupt:
            reason = "at once, by a second Ctrl-C or signal; `steersman resume` goes on"
            self.recorder.record(End(outcome="interrupted", reason=reason))
            raise
        self.recorder.record(end)
        self.recorder.journal.sync()

    def _work(self) -> End | None:
        """Work with one Parsl until the end of the run, or of Parsl; None when it is to be started again."""
        self._clear_bus()
        try:
            jobs = Jobs(
                parsl_config(self.site, self.directory.parsl), self._space, self.directory.bus,
                begins_s=BEGINS_LEASES * self.site.lease_s, starts_s=self.site.starts_s,
            )  # fmt: skip
        except ExecutorLost as error:
            orphans.reap_earlier(self.directory.path, keep=self._servers.pids)
            return self._start_again(error)
        cause = "it was still at work when the run ended"
        try:
            return self._driver(jobs).run()
        except ExecutorLost as error:
            cause = str(error)
            return self._start_again(error)
        finally:
            jobs.close()
            orphans.reap_earlier(self.directory.path, keep=self._servers.pids)  # they might still commit something
            if self.interrupts.count < 2:  # else a record may be in the journal and not in the state, as resume mends
                reconcile(self.recorder, self.directory.frames, keep=not self.rounds, cause=cause)

    def _driver(self, jobs: Jobs) -> Driver:
        return Driver(
            self.directory, self.workflow, self.params, self.site, self.recorder, jobs, self._servers, self._space,
            seed=self.seed, rounds=self.rounds, interrupts=self.interrupts, lock=self.lock, show=self.show,
        )  # fmt: skip

    def _start_again(self, error: ExecutorLost) -> End | None:
        """Note it; `anew` says for a replay that the scores are read back and ranked anew, as in a new session.

        Returns: how the run ends, where another Parsl would be in vain, or somebody ended the run meanwhile.
        """
        if self.interrupts.count:
            return End(outcome="interrupted", reason="by Ctrl-C or a signal; `steersman resume` goes on")
        self._parsls_lost = self._parsls_lost + 1 if self.state.frames == self._frames_at_loss else 1
        self._frames_at_loss = self.state.frames
        if self._parsls_lost == PARSLS:
            reason = f"{error}, {PARSLS} times in a row without a frame between; see {self.directory.parsl}"
            return End(outcome="failed", reason=reason)
        self.recorder.record(Note(text=f"{error}; Parsl is started again", anew=True))
        return None

    def _clear_bus(self) -> None:
        """Whatever an earlier session left on the bus goes."""
        for name in self._space.names():
            if not name.startswith(TELL):
                self._space.clear(name)

    def _record_session(self, left_over: int) -> None:
        recorder, state = self.recorder, self.state
        after = state.now if state.sessions else None
        if not state.sessions:
            recorder.record(self._described())
        session = Session(host=platform.node(), pid=os.getpid(), after=after)
        begin: list[Record] = [self.told, session] if self.told else [session]
        recorder.record_all(begin)
        if self.lock.took_over:
            recorder.note(self.lock.took_over)
        if left_over:
            recorder.note(f"{left_over} processes of an earlier driver were still there; they were ended")
        if recorder.journal.repaired:
            recorder.note(f"the torn end of the journal was cut off: {recorder.journal.repaired[:80]!r}")
        if flaws := recorder.journal.flaws:
            recorder.note(f"the journal is not whole, {len(flaws)} times; the first is {flaws[0]}; see `verify`")
        adopted = reconcile(recorder, self.directory.frames, keep=not self.rounds, cause="its driver died")
        if adopted:
            recorder.note(f"{adopted} frames were committed that the journal did not know of; they count")

    def _described(self) -> RunRecord:
        assert self.workflow.simulation is not None
        time_variable = self.workflow.simulation.variables.get("time")
        return RunRecord(
            workflow=self.workflow.name, seed=self.seed, rounds=self.rounds, slots=self.slots,
            guided=self.workflow.steering.guided, gpus=self.site.gpus,
            time_unit=time_variable.units if time_variable else "1",
            files=run_directory.digests(self.directory),
        )  # fmt: skip
