"""A run: its sessions, its bus servers, and Parsl, which is started again when it dies.

A fresh run is the resume of an empty journal; the death of Parsl is a resume without a new driver.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from steersman.bus import BusError, TupleSpace
from steersman.engine import mending, merger, orphans, people
from steersman.engine.driven import Driven
from steersman.engine.driver import Driver
from steersman.engine.errors import ExecutorLost
from steersman.engine.inbox import TELL
from steersman.engine.jobs import Jobs
from steersman.engine.log import logged
from steersman.engine.mending import Mended
from steersman.engine.process import allow_many_files, expect_processes, give_large_arrays_back, no_process
from steersman.engine.reconcile import reconcile
from steersman.engine.servers import RunServers
from steersman.executors import batch
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site import Site
from steersman.journal import manifest, run_directory
from steersman.journal.errors import no_room
from steersman.journal.records import End, Note, Record, Run, Session, Tell
from steersman.journal.run_directory import needing_room
from steersman.journal.state import State
from steersman.stages.task import NOBODY, planned_by
from steersman.steering.decide import PRUNES_NONE
from steersman.system.files import replace_file, sync_folder, sync_tree

PARSLS = 5  # that may be lost in a row without a frame between: what is wrong will not go away
CLOCK_S = 10.0  # by which clocks may differ
PATIENCE_S = 2.0  # a server that is silent for so long is looked after


@dataclass(kw_only=True)
class Campaign(Driven):
    """Executes a workflow in its run directory.

    Args:
        bus_url: of a bus server to use; None starts one.
        told: parameters that a person set to go on with.
        moved: a person wants it to go on with this site, which is not the one of its directory, in plain values.
        mended: another workflow file that a person gives it, whose loop is the same.
    """

    bus_url: str | None = None
    told: Tell | None = None
    moved: Mapping[str, Any] | None = None
    mended: Mended | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        site = self.site
        kept_s = math.inf if not site.inside else (site.simulation.walltime_s or math.inf) - site.margin_s
        self._until = time.monotonic() + kept_s
        self._parsls_lost, self._frames_at_loss = 0, -1

    @property
    def unused(self) -> str:
        """Of what steers: what did nothing in this run, in words."""
        weighs = any(mode.weighs for mode in self.state.modes)
        return self.rules.steering.unused(self.state.chosen, weighs=weighs, rounds=self.rounds)

    def execute(self) -> State:
        """Run to the end and return the last state; `state.end` says how it ended.

        Raises: RunIsLocked: another process drives this run. EngineError: the disk is full, read-only, or the like.
            KeyboardInterrupt: at a second Ctrl-C.
        """
        path = self.directory.path
        allow_many_files(path)
        here = [one for one in self.site.workers.values() if not one.nodes]
        expect_processes(path, len(here), sum(one.count for one in here))
        give_large_arrays_back()
        log = logged(self.directory.log)
        with needing_room(path), self.lock.held(), log, orphans.guarded(path), self.interrupts, planned_by(NOBODY):
            self._execute()
        return self.state

    def _execute(self) -> None:
        left_over = orphans.reap_earlier(self.directory.path)
        self._record_session(left_over)  # refused where another process has gone on with it since it was read
        manifest.unseal(self.directory)
        try:
            with RunServers(self.directory, self.site, self.recorder, self.bus_url) as self._servers:
                self._space = TupleSpace.connect(self.directory.bus, patience_s=PATIENCE_S)
                end = None
                while end is None:
                    end = self._work()
                if not self._servers.pids:  # it is somebody else's, who goes on with it
                    with contextlib.suppress(BusError):
                        self._space.erase()
        except KeyboardInterrupt:
            self.recorder.record(End(outcome="interrupted", reason="at once, by a second Ctrl-C or signal"))
            raise
        except (RuntimeError, OSError) as error:
            if not no_process(error):
                raise
            problem = f"no further process or thread may be started ({error})"
            self.recorder.record(End(outcome="interrupted", reason=problem))
            raise no_room(self.directory.path, problem) from None
        self.recorder.record(end)
        self.recorder.journal.sync()

    def _work(self) -> End | None:
        """Work with one Parsl until the end of the run, or of Parsl; None when it is to be started again."""
        self._clear_bus()
        try:
            jobs = Jobs(
                parsl_config(self.site, self.directory.parsl), self._space, self.directory.bus,
                begins_s=self.site.begins, starts_s=self.site.starts_s,
            )  # fmt: skip
        except ExecutorLost as error:
            orphans.reap_earlier(self.directory.path, keep=self._servers.pids)
            return self._start_again(error)
        cause = "it was still working when the run ended"
        try:
            return Driver(self, jobs, self._servers, self._space, until=self._until).run()
        except ExecutorLost as error:
            cause = str(error)
            return self._start_again(error)
        finally:
            jobs.close()
            orphans.reap_earlier(self.directory.path, keep=self._servers.pids)  # they might still commit something
            if self.interrupts.count < 2:  # else a record may be in the journal and not in the state, as resume mends
                reconcile(self.recorder, self.directory.frames, keep=not self.rounds, cause=cause)

    def _start_again(self, error: ExecutorLost) -> End | None:
        """Note it; `anew` says for a replay that the scores are read back and ranked anew, as in a new session.

        Returns: how the run ends, where another Parsl would be in vain, or somebody ended the run meanwhile.
        """
        if self.interrupts.count:
            return End(outcome="interrupted", reason="by Ctrl-C or a signal")
        self._parsls_lost = self._parsls_lost + 1 if self.state.frames == self._frames_at_loss else 1
        self._frames_at_loss = self.state.frames
        if self._parsls_lost == PARSLS:
            reason = f"{error}, {PARSLS} times in a row without a new frame; see {self.directory.parsl.resolve()}"
            return End(outcome="failed", reason=reason)
        self.recorder.record(Note(text=f"{error}; Parsl is restarted", anew=True))
        return None

    def _clear_bus(self) -> None:
        """Whatever an earlier session left in the run's space goes."""
        for name in self._space.names():
            if not name.startswith(TELL):
                self._space.clear(name)
        self._servers.troubles.add("the bus is empty")

    def _record_session(self, left_over: int) -> None:
        recorder, state = self.recorder, self.state
        after = state.now if state.sessions else None
        if not state.sessions:
            sync_tree(self.directory.path)
            for folder in self.directory.path.absolute().parents[:2]:  # a new one, and `runs` may be new too
                sync_folder(folder)
            recorder.record(self._described())
        session = Session(host=platform.node(), pid=os.getpid(), after=after, slots=self.slots, gpus=self.site.gpus)
        if after is not None:
            self._cancel_jobs(Site.model_validate(self.directory.site()))
        begin: list[Record] = [self.told, session] if self.told else [session]
        recorder.record_all(begin)
        if after is None and self.rounds and self.rules.steering.prune:
            recorder.note(PRUNES_NONE)
        if self.mended:
            mending.take(self.mended, self.directory, recorder)
        if self.moved:
            new = f"site {self.moved['name']}, see {self.directory.site_file.name}"
            recorder.note(f"{people.who()} continues the run with {new}")
            replace_file(self.directory.site_file, yaml.safe_dump(dict(self.moved), sort_keys=False))
        if self.lock.took_over:
            recorder.note(self.lock.took_over)
        if left_over:
            recorder.note(f"{left_over} processes of an earlier driver were still running; they were ended")
        if (behind_s := recorder.journal.behind_s) > CLOCK_S:
            recorder.note(
                f"the clock of this machine is {behind_s:.0f} s behind the last record; times go on from that"
            )
        if recorder.journal.repaired:
            recorder.note(f"the incomplete last record of the journal was removed: {recorder.journal.repaired[:80]!r}")
        if flaws := recorder.journal.flaws:
            recorder.note(f"the journal has {len(flaws)} damaged lines; the first is {flaws[0]}; see `verify`")
        merger.settle(recorder, self.directory.frames)
        adopted = reconcile(recorder, self.directory.frames, keep=not self.rounds, cause="its driver died")
        if adopted:
            recorder.note(f"{adopted} frames were committed but missing in the journal; they were added to it")
        recorder.journal.sync()

    def _cancel_jobs(self, site: Site) -> None:
        """Cancel what an earlier driver left in a queue: its workers could not reach this one."""
        if jobs := batch.jobs_of(site, self.directory.path):
            refused = batch.cancel(site, jobs)
            done = f"they could not be cancelled, cancel them yourself: {refused}" if refused else "they were cancelled"
            self.recorder.note(f"an earlier driver left jobs in the queue, {', '.join(jobs)}; {done}")

    def _described(self) -> Run:
        assert self.workflow.simulation is not None
        return Run(
            workflow=self.workflow.name, seed=self.seed, rounds=self.rounds, slots=self.slots,
            guided=self.rules.steering.guided, gpus=self.site.gpus,
            time_unit=self.workflow.time_unit, stages=tuple(filter(None, (s.recorded for s in self.workflow.stages))),
            files=run_directory.digests(self.directory), exact=self.workflow.simulation.exact,
            scattered=True,
        )  # fmt: skip
