"""Messages -> journal -> what is due: the loop of a run, with one Parsl.

The loop is level-triggered: each step hears what happened, writes it down, and does what the state says is due. So
nothing depends on the order in which messages arrive, and what a lost bus server left half done is done again.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import steersman
from steersman.bus import BusError, TupleSpace
from steersman.engine import ending
from steersman.engine.bag import Bag
from steersman.engine.crew import Crew
from steersman.engine.driven import Driven
from steersman.engine.errors import ExecutorLost
from steersman.engine.inbox import Inbox, JobBegan
from steersman.engine.jobs import Jobs
from steersman.engine.learning import Learning
from steersman.engine.merger import Merger
from steersman.engine.oddities import Oddities
from steersman.engine.people import People, told_before_prepared
from steersman.engine.planner import Planner
from steersman.engine.reconcile import catch_up, first_shapes, hear
from steersman.engine.servers import RunServers
from steersman.engine.work import Work
from steersman.journal.errors import FINISHED
from steersman.journal.recorder import see
from steersman.journal.records import End, Epoch, Prepared, Record
from steersman.journal.run_directory import KNOWN
from steersman.stages import loading
from steersman.stages.modules import explained
from steersman.stages.params import Params
from steersman.steering.decide import STAGES
from steersman.store import MOVE_EVERY_S, Frames
from steersman.system.calls import called
from steersman.system.errors import told
from steersman.system.node import busy
from steersman.worker import tasks
from steersman.worker.orders import LIKE, THERE

GATHER_S = 10e-6  # a slot: messages gather so long before a step, which takes about 1 us a slot however few there are
SHORTEST_S = 1e-3  # a shorter sleep costs more than it saves where the cores are busy: some ms until one is free again
TICK_S = 0.25  # the display is drawn, and jobs are looked at, at least this often
LISTEN_S = 0.1  # between two looks for words of people: each is a round trip before the next start is chosen
SYNC_S = 0.5  # the journal is on the disk this and a step later at most: a power failure may cost a second
GOODBYE_S = 120.0  # walkers get this long to end their segments and publish


class Driver:
    """Drives a run until it ends.

    Args:
        until: when the job that the driver runs in is about to end, by the clock.
        clock: seconds, monotonic.
    Raises: ExecutorLost: a part of Parsl died.
    """

    def __init__(
        self,
        run: Driven,
        jobs: Jobs,
        servers: RunServers,
        space: TupleSpace,
        *,
        until: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._jobs, self._servers, self._space = run, jobs, servers, space
        self._until, self._clock = until, clock
        self._synced, self._listened, self._foretold = 0.0, -math.inf, False
        self._ends: End | None = None  # once the loop is over
        self._inbox = Inbox(space, run.recorder, clock)
        self._people = People(
            self._inbox, space, run.recorder, self._check, run.rules.steering, self._too_late,
            labels=run.workflow.labelling is not None,
        )  # fmt: skip
        self._learning = Learning(run, jobs, clock)
        self._scorer = self._learning.scorer
        self._held_out = run.workflow.held_out_draws(run.params, run.seed)  # once: threads draw from this process, too
        self._bag = Bag(
            run.recorder, space, run.rules.steering, run.directory.decisions, seed=run.seed, rounds=run.rounds,
            misses=functools.partial(run.workflow.misses, run.directory.frames),
            condition=lambda turn: run.workflow.condition(run.rules.params, turn),
            held_out=self._held_out, amend=self._learning.amend,
            lost_s=2 * run.site.lease, batch=run.simulation.batch or 1, clock=clock,
        )  # fmt: skip
        late_s = MOVE_EVERY_S if run.site.simulation.scratch else 0.0  # frames are heard of so much later
        self._crew = Crew(
            run.directory, run.slots, run.recorder, jobs, self._bag, space, hang_s=run.simulation.hang_s + late_s,
            starts_s=run.site.starts_s, keep=not run.rounds, own_disks=bool(run.site.simulation.scratch), clock=clock,
        )  # fmt: skip
        self._merger = Merger(run.directory.frames, run.recorder, clock=clock)
        self._oddities = Oddities(run.directory.frames, run.recorder, draws=run.rules.steering.policy.draws)

    def run(self) -> End:
        """Prepare, then simulate, train, score and steer; returns how it ended."""
        try:
            with threadpool_limits(1):  # threads that share a core with walkers wait for each other
                self._warm_up()
                end = self._prepare()
                if end is None and self._end() is None:  # else only what comes after the loop is left
                    self._crew.start()
                while end is None:
                    self._step(self._advance)
                    end = self._end()
                self._ends = end
                self._say_goodbye()
                self._oddities.look()
                end = self._after(self._with_last_scores(end))
        finally:
            self._bag.close()
            self._merger.close()
        return end

    def _step(self, act: Callable[[], None]) -> None:
        """Wait for messages, write them down, act; the server is brought back if it is gone."""
        try:
            self._crew.look()
            self._hear()
            self._check_executors()
            if self._clock() - self._listened > LISTEN_S:
                self._listened = self._clock()
                self._people.listen()
            self._bag.steer(self._run.rules.steering)
            self._servers.look()
            self._servers.look_for(self._space)
            if self._servers.troubles:
                self._make_good()
            act()
        except BusError as error:
            self._servers.mend(error)
        if self._clock() - self._synced > SYNC_S:
            self._synced = self._clock()
            self._bag.sync()
            self._run.recorder.journal.sync()
            self._oddities.look()  # it reads frames, so not at every step
        self._run.show(self._run.state, self._run.rules.stop)

    def _advance(self) -> None:
        """Do what is due."""
        self._crew.advance()
        self._merger.advance()
        if self._run.rounds:
            self._bag.share(self._crew.stand_ins(), self._run.slots)
        self._bag.mend(self._run.simulation.retries)
        self._bag.align(self._run.slots, offered=self._run.state.wishes.paused is None)
        if lost := self._bag.lost():
            self._servers.miss(f"{lost} of the starts that wait")
        if self._run.rounds and not self._round_is_over:
            if ending.met(self._run.state, self._run.rules.stop, self._run.recorder.now()):
                self._crew.wait_for_ends("in rounds a segment ends when `simulate` returns")
            return
        if self._learning.advance(self._run.rules.train):
            self._prune()
        self._foretell()
        if (self._run.rounds and self._learning.busy) or self._run.state.wishes.paused:
            return
        self._learning.follow()
        if self._end() is None:
            room = lambda: ending.room(self._run.state, self._run.rules.stop)  # noqa: E731 (asked when a slot wants a start)
            self._bag.fill(self._scorer.scores, self._run.slots, room, self._scorer.names)

    def _hear(self) -> None:
        if (gather_s := min(GATHER_S * self._run.slots, TICK_S)) >= SHORTEST_S:
            time.sleep(gather_s)
        for message in self._inbox.events(TICK_S):
            if isinstance(message, JobBegan):
                self._jobs.began(message.job, message.manager, message.worker)
            else:
                self._take(message)

    def _take(self, record: Record) -> None:
        """Write down what a worker says, unless it is known, or cannot be."""
        if isinstance(record, Epoch):
            self._run.recorder.record(record)
            return
        walker = self._run.state.walkers.get(record.walker)  # type: ignore[attr-defined]  # all others are of walkers
        if walker is None:
            self._inbox.refuse(record, "the run has no such walker")
        elif walker.alive and not hear(self._run.recorder, self._run.directory.frames, walker, record):
            self._inbox.refuse(record, "it does not follow this walker's earlier messages")

    def _make_good(self) -> None:
        """A server was lost: what it may have forgotten is read from the store, and said again."""
        catch_up(self._run.recorder, self._run.directory.frames)
        self._bag.doubt()
        self._crew.doubt()
        if self._space.read_nowait(THERE) is None:
            if first := first_shapes(self._run.state, self._run.directory.frames):
                self._space.put(LIKE, *first, once=LIKE)
            self._space.put(THERE)
        self._servers.troubles.clear()

    def _check_executors(self) -> None:
        if broken := self._jobs.broken:
            raise ExecutorLost(broken)
        for words in [*self._jobs.newly_lacking(), *self._jobs.end_stuck_blocks()]:
            self._run.recorder.note(words)

    # What people say

    def _too_late(self, verb: str) -> str:
        """Why a word would change nothing any more; a budget can be raised while the last scores are awaited."""
        end = self._ends
        if end is None and verb in ("pause", "pin", "label"):
            end = ending.met(self._run.state, self._run.rules.stop, self._run.recorder.now())
        return end.reason if end else ""

    def _check(self, settings: dict[str, Any]) -> Params:
        params = loading.changed(self._run.workflow, self._run.params, settings)
        loading.check_rules(self._run.workflow, params, self._run.rules.steering)
        return params

    # Before and after the loop

    def _warm_up(self) -> None:
        """Let workers import the workflow, so that the first training and scoring need not wait for it; and here what
        reads frames, which would hold up the first choices."""
        threading.Thread(target=import_module, args=("steersman.store.metadata",), daemon=True).start()
        for role, executor in self._run.site.executors.items():
            if role != "simulation" and not executor.in_driver:
                self._jobs.submit(role, tasks.warm_up, str(self._run.directory.path))

    def _prepare(self) -> End | None:
        """Have the first start made; returns how the run ends, if it does meanwhile."""
        if self._run.state.prepared and self._run.directory.prepared.exists():
            return None
        changes = told_before_prepared(self._run.directory)
        if plan := self._run.workflow.before_plan:
            params = loading.changed(self._run.workflow, self._run.params, changes)
            receipt = self._planner().followed("before", self._step, self._end, plan, params)
            if isinstance(receipt, End):
                return receipt
            self._prepared(receipt.sha256)
        if self._run.workflow.prepare_function is None:
            return None

        def submit() -> Any:
            return self._jobs.submit("simulation", tasks.prepare, str(self._run.directory.path), changes)

        work = Work("preparing the start", submit, self._run.recorder.note, losses=2, clock=self._clock)
        while (job := work.advance()) is None:
            self._step(lambda: None)
            if end := self._end():
                return end
        if error := job.exception():
            where = see(self._run.directory.traceback("prepare"))
            words = explained(told(error), self._run.directory.path)
            return End(outcome="failed", reason=f"prepare: {words}{where}")
        self._prepared(job.result() or "")
        return None

    def _prepared(self, sha256: str) -> None:
        """Write down what was prepared; where that was lost and made again, it may be another."""
        before = self._run.state.prepared
        labels, there = Frames(self._run.directory.labels), (self._run.directory.labels / KNOWN).exists()
        source = str(labels.attributes(KNOWN)["source"]) if there else ""
        self._run.recorder.record(Prepared(sha256=sha256, labels=labels.count(KNOWN) if there else 0, source=source))
        if before not in ("", sha256):
            self._run.recorder.note("prepared.pkl was lost, and is not the same now: what begins there now differs")

    def _after(self, end: End) -> End:
        """What comes after a loop that did what it was to do; returns how the run ends."""
        plan = self._run.workflow.after_plan
        if plan is None or end.outcome not in FINISHED:
            return end
        run = steersman.open_run(self._run.directory.path)
        over = lambda: self._broken_off() or self._hopeless()  # noqa: E731
        receipt = self._planner().followed("after", self._step, over, plan, self._run.rules.params, run)
        return receipt if isinstance(receipt, End) else end

    def _planner(self) -> Planner:
        return Planner(self._run.directory, self._run.workflow, self._run.recorder, self._jobs)

    def _say_goodbye(self) -> None:
        """Let walkers end their segments and publish, and what is being learned come to its end."""
        deadline = self._clock() + GOODBYE_S
        goes_on = self._run.interrupts.count or self._run.rules.steering.policy.rounds
        whole = self._run.rounds and bool(goes_on)  # its segments are, for the round is to be gone on with
        while (not self._crew.dismissed or self._crew.at_work) and self._clock() < deadline:
            self._step(functools.partial(self._crew.dismiss, whole=whole))
        with contextlib.suppress(BusError):
            self._hear()
        while not self._run.interrupts.count and self._clock() < deadline:
            self._learning.advance(self._run.rules.train, deadline - self._clock())
            if not self._learning.busy:
                return
            self._step(lambda: None)
        if self._learning.busy and not self._run.interrupts.count:
            what = "training" if self._learning.training else "scoring"
            words = f"the last {what} did not come to its end within {GOODBYE_S:.0f} s; frames may have no scores"
            self._run.recorder.note(words + (f"; {busy()}" if busy() else ""))

    def _foretell(self) -> None:
        """Say once that there will be no model in time, while the run can still be given more."""
        if self._foretold or self._run.rules.train is None:
            return
        draws = len(self._held_out)
        if words := ending.without_model(
            self._run.state, self._run.rules.stop, self._run.rules.train.first, draws, self._run.recorder.now()
        ):
            self._foretold = True
            self._run.recorder.note(words + (f"; {busy()}" if busy() else ""))

    @property
    def _round_is_over(self) -> bool:
        """A start is done with when its frames are published."""
        return not self._run.state.starts and not self._run.state.running

    def _prune(self) -> None:
        rule = self._run.rules.steering.prune
        scores = self._scorer.scores()
        if rule is None or not all(name in scores.values for name in rule.needs):
            return
        for segment in self._run.state.running:
            if not len(rows := np.flatnonzero((scores.walker == segment.walker) & (scores.segment == segment.number))):
                continue
            try:
                if (reason := called(rule.reason, scores, rows)) and not isinstance(reason, str):
                    raise TypeError(f"it gave {reason!r:.60}: its `reason` gives words, or None")
            except Exception as error:  # a user's rule may raise anything; the segments go on
                self._run.recorder.fails_here("prune", error, f"; {segment.name} continues")
                continue
            self._run.recorder.works("prune")
            if reason:
                self._crew.stop_segment(segment.name, reason, by=type(rule).__name__)

    # The end

    def _end(self) -> End | None:
        if end := self._broken_off():
            return end
        if self._run.state.wishes.finish:
            return End(outcome="finished", reason=f"by {self._run.state.wishes.finish}")
        if end := self._hopeless():
            return end
        errors = self._run.directory.errors.resolve()
        if end := ending.failed(
            self._run.state, self._run.rules.stop, self._run.slots, self._run.site.nodes, self._bounds, errors
        ):
            return end
        if self._run.rounds and not (self._round_is_over and not self._learning.busy):
            return None
        return ending.met(self._run.state, self._run.rules.stop, self._run.recorder.now())

    def _broken_off(self) -> End | None:
        """What ends a run at whatever it is."""
        if self._run.interrupts.count:
            return End(outcome="interrupted", reason="by Ctrl-C or a signal")
        if self._clock() >= self._until:  # another block would come to the same job, and leave at once
            return End(outcome="interrupted", reason="the job that drives it ends")
        if self._run.lock.lost:
            return End(outcome="interrupted", reason=self._run.lock.lost)
        return None

    def _hopeless(self) -> End | None:
        why = self._jobs.hopeless or self._crew.hopeless or self._scorer.hopeless or self._bag.hopeless
        return End(outcome="failed", reason=why) if why else None

    def _with_last_scores(self, end: End) -> End:
        """Scores that came after a budget was spent may show that it reached the goal, or bought nothing."""
        if end.outcome != "budget":
            return end
        if self._scorer.hopeless:
            return End(outcome="failed", reason=self._scorer.hopeless)
        last = ending.met(self._run.state, self._run.rules.stop, self._run.recorder.now())
        return last if last and last.outcome == "goal" else ending.spent(self._run.state, end.reason)

    @property
    def _bounds(self) -> dict[str, int]:
        stages = (*STAGES, *(f"metric {name}" for name in self._run.rules.stop.needs))
        return dict.fromkeys(stages, self._run.workflow.most_failures)
