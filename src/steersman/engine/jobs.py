"""Functions of `tasks` -> Parsl: submitted to an executor; that they begin and end is an event on the bus.

A worker that is killed while it waits for work holds the lock of its manager's queue forever: the manager goes on
accepting jobs that none of its workers can take. So a block is ended whose manager holds a job that does not begin;
Parsl then reports that the job is lost, and the engine does what it does with every lost job. A bus server that is
killed may forget the event that a job began; then whatever else is heard of it counts as well.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors.base import ParslExecutor
from parsl.executors.high_throughput.errors import ManagerLost, WorkerLost

from steersman.bus import BusError, TupleSpace
from steersman.engine.errors import ExecutorLost
from steersman.engine.process import no_process
from steersman.engine.stuck import Stuck
from steersman.executors.pool import pools
from steersman.system.errors import EngineError, told
from steersman.system.node import busy, load
from steersman.worker import tasks
from steersman.worker.orders import EVENT, JOB

CLEANUP_S = 20.0  # Parsl's cleanup can hang; what it leaves the engine ends
BROKEN_CLEANUP_S = 2.0  # who asked an interchange that died waits longer for its answer than we do
LOOK_S = 1.0  # jobs that have not begun are looked for so often, and managers then asked what they hold
# What parsl.log keeps: its DEBUG is 370 MB a day for looking at blocks each second, and 2 kB a job.
KEPT = {"parsl": logging.INFO, "parsl.dataflow": logging.WARNING}
log = logging.getLogger(__name__)
EAGER_S = 0.05  # Parsl asks for its first blocks at most so long after it has executors

T = TypeVar("T")


def lost(error: BaseException | None) -> bool:
    """Whether a job ended because what it ran on died, and not by its own fault."""
    return isinstance(error, (WorkerLost, ManagerLost))


def killed(error: BaseException | None) -> bool:
    """Whether the process of a job, and nothing around it, died: by what it ran, it may be."""
    return isinstance(error, WorkerLost)


Where = Callable[[], str | None]


@dataclass
class _Job:
    role: str
    submitted: float
    heard: Where
    said: str | None = None  # by itself: the manager that runs it,
    worker: str = ""  # and which of its workers

    @property
    def manager(self) -> str | None:
        """That runs it; "": nobody knows which, None: it has not begun."""
        return self.heard() if self.said is None else self.said


class Jobs:
    """Parsl while a run uses it. A finished job wakes the engine with an event, so that it waits in one place only.

    Args:
        bus: where jobs say that they began.
        begins_s: a job that a manager has held for so long begins, or the manager's block is ended.
        starts_s: the same where the first job of a worker is due, which may take long to import what it needs.
        clock: seconds, for this.
    Raises: ExecutorLost: an interchange died while Parsl was starting.
    """

    def __init__(
        self,
        config: Config,
        space: TupleSpace,
        bus: Path,
        *,
        begins_s: float,
        starts_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._space, self._bus, self._clock = space, bus, clock
        self._pools = pools(config)
        self._kernel = _started(config)
        self._numbers = itertools.count()
        self._open: dict[int, _Job] = {}
        self._lock = threading.Lock()
        self._stuck = Stuck(begins_s, starts_s)
        self._looked = -math.inf
        self._reported = {""}

    def submit(
        self,
        role: str,
        function: Callable[..., Any],
        *args: Any,
        heard: Where = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> Future[Any]:
        """Run `function(*args)` on the executor of a role, once the futures among the arguments are there.

        Args:
            ended: called when it has ended, by another thread, before the engine is woken.
            heard: where it runs, by other events than its first: a manager, "" for one that nobody knows, None
                while there are none.
        """
        number, pool = next(self._numbers), self._pools.get(role)
        if pool:  # an endpoint's managers are not ours to end, threads have none
            with self._lock:
                self._open[number] = _Job(role, self._clock(), heard)
            function, args = tasks.begin, (str(self._bus), number, function, *args)
        resources = pool.resources if pool else {}  # Parsl writes into it
        future: Future[Any] = self._kernel.submit(
            function, app_args=args, executors=[role], cache=False, ignore_for_cache=None,
            app_kwargs={"parsl_resource_specification": resources} if resources else {},
        )  # fmt: skip
        future.add_done_callback(lambda done: self._ended(number, ended, died=killed(done.exception())))
        return future

    def began(self, number: int, manager: str, worker: str) -> None:
        """Take in what a job said."""
        with self._lock:
            self._stuck.begins(manager, worker, self._clock())
            if number in self._open:
                self._open[number].said, self._open[number].worker = manager, worker

    def newly_lacking(self) -> list[str]:
        """In words what is waited for while no block runs, and the workers that blocks lack, each once."""
        lacking = {words for pool in self._pools.values() for words in pool.lacking} - self._reported
        self._reported |= lacking
        return sorted(lacking)

    def end_stuck_blocks(self) -> list[str]:
        """End the blocks whose workers do not take what their manager holds. Returns: in words what was done."""
        now = self._clock()
        if now - self._looked < LOOK_S:
            return []
        self._looked = now
        with self._lock:
            jobs = list(self._open.values())
        waiting = {job.role for job in jobs if now - job.submitted > self._stuck.begins_s and job.manager is None}
        if not waiting:
            self._stuck.forget()
            return []
        held = {m["manager"]: (role, m) for role in waiting for m in self._pools[role].managers()}
        at_work = {
            name: [job.worker for job in jobs if job.role == role and job.manager in ("", name)]
            for name, (role, _) in held.items()
        }
        slow = {name: max(1.0, load()) for name, (role, _) in held.items() if self._pools[role].here}
        with self._lock:
            late = self._stuck.late({name: m["tasks"] for name, (_, m) in held.items()}, at_work, now, slow)
        due = {(role, m["block_id"]): late[name] for name, (role, m) in held.items() if name in late}
        ended = [(role, limit_s) for (role, block), limit_s in sorted(due.items()) if self._pools[role].end(block)]
        if ended:
            self._stuck.be_patient()
        return [
            f"a {role} job did not begin within {limit_s:.0f} s, although workers have it: they are replaced"
            + (f"; {busy()}" if self._pools[role].here and busy() else "")
            for role, limit_s in ended
        ]

    @property
    def broken(self) -> str:
        """Which part of Parsl died, if one did; Parsl itself would wait for it forever."""
        return next((pool.broken for pool in self._pools.values() if pool.broken), "")

    @property
    def hopeless(self) -> str:
        """Why no worker of an executor ever comes, if none does; another Parsl would not change it."""
        return next((pool.hopeless for pool in self._pools.values() if pool.hopeless), "")

    def hold(self, role: str, manager: str) -> None:
        """Give no more work to one manager of an executor."""
        if pool := self._pools.get(role):
            pool.hold(manager)

    def close(self) -> None:
        cleanup = threading.Thread(target=self._cleanup, name="parsl-cleanup", daemon=True)
        cleanup.start()
        cleanup.join(BROKEN_CLEANUP_S if self.broken else CLEANUP_S)

    def _cleanup(self) -> None:
        for pool in self._pools.values():
            if pool.died:
                pool.give_up()
        self._kernel.cleanup()

    def _ended(self, number: int, ended: Callable[[], None], *, died: bool) -> None:
        ended()
        with self._lock:
            job = self._open.pop(number, None)
            if job and job.said and died:
                self._stuck.dies(job.said, job.worker)
        with contextlib.suppress(BusError):  # the engine looks at its jobs a few times a second anyway
            self._space.put(EVENT, JOB, {})


def _started(config: Config) -> DataFlowKernel:
    """Start Parsl; it would wait two minutes for an interchange that died meanwhile."""
    starting = _aside(_eager, config)
    while not wait([starting], timeout=LOOK_S).done:
        if died := next((pool.died for pool in pools(config).values() if pool.died), ""):
            raise ExecutorLost(f"{died} while it was starting")
    try:
        return starting.result()
    except BrokenPipeError:  # Parsl writes an interchange's settings into a pipe
        raise ExecutorLost("an interchange died before it received its settings") from None
    except (EngineError, OSError):
        raise
    except Exception as error:  # Parsl has no names for what may happen
        if no_process(error):
            raise
        log.exception("Parsl did not start")
        raise ExecutorLost(f"Parsl did not start: {told(error)}") from None


def _aside(function: Callable[..., T], *args: Any) -> Future[T]:
    """Call it in a thread that nobody waits for at the end."""
    future: Future[T] = Future()

    def call() -> None:
        # A terminal sends Ctrl-C, or that it goes, to all processes, and Parsl's interchange would die of it; what a
        # thread starts inherits what it does not hear.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            future.set_result(function(*args))
        except BaseException as error:  # the waiting thread raises it
            future.set_exception(error)

    threading.Thread(target=call, name="parsl-start", daemon=True).start()
    return future


class _Kernel(DataFlowKernel):  # type: ignore[misc]  # Parsl has no types
    """Parsl, whose executors start side by side: each waits for its interchange."""

    def add_executors(self, executors: Sequence[ParslExecutor]) -> None:
        add = super().add_executors
        for starting in [_aside(add, [one]) for one in executors]:
            starting.result()


def _eager(config: Config) -> DataFlowKernel:
    """Parsl looks at its blocks each period; without this the first would be asked for a period late."""
    period_s, config.strategy_period = config.strategy_period, EAGER_S
    kernel = _Kernel(config)
    for name, level in KEPT.items():
        logging.getLogger(name).setLevel(level)
    kernel.job_status_poller.interval = period_s
    return kernel
