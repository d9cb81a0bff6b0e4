"""Functions of `tasks` -> Parsl: submitted to an executor, their end told over the bus."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors.high_throughput.errors import ManagerLost, WorkerLost

from steersman.apps.walker import EVENT
from steersman.bus import BusError, TupleSpace

CLEANUP_S = 20.0  # Parsl's cleanup can hang on a broken executor; its workers die with the driver anyway


def lost(error: BaseException | None) -> bool:
    """Whether a job ended because what it ran on died, and not by its own fault."""
    return isinstance(error, (WorkerLost, ManagerLost))


def killed(error: BaseException | None) -> bool:
    """Whether the process of a job, and nothing around it, died: by what it ran, it may be."""
    return isinstance(error, WorkerLost)


class Jobs:
    """Parsl while a run uses it. A finished job wakes the engine with an event, so that it waits in one place only."""

    def __init__(self, config: Config, space: TupleSpace) -> None:
        self._space = space
        self._kernel = DataFlowKernel(config)

    def submit(self, role: str, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run `function(*args)` on the executor of a role."""
        future: Future[Any] = self._kernel.submit(
            function, app_args=args, executors=[role], cache=False, ignore_for_cache=None, app_kwargs={}
        )
        future.add_done_callback(self._wake)
        return future

    @property
    def broken(self) -> str:
        """Which part of Parsl died, if one did; Parsl itself would wait for it for ever."""
        for label, executor in self._kernel.executors.items():
            interchange = getattr(executor, "interchange_proc", None)
            if interchange is not None and interchange.poll() is not None:
                return f"the interchange of the {label} workers died (exit code {interchange.returncode})"
            if getattr(executor, "bad_state_is_set", False):
                return f"the {label} workers cannot be used: {executor.executor_exception}"
        return ""

    def hold(self, role: str, pool: str) -> None:
        """Give no more work to one manager of an executor."""
        executor = self._kernel.executors[role]
        if hasattr(executor, "_hold_manager"):  # Parsl has no public name for it
            executor._hold_manager(pool)

    def close(self) -> None:
        cleanup = threading.Thread(target=self._kernel.cleanup, name="parsl-cleanup", daemon=True)
        cleanup.start()
        cleanup.join(CLEANUP_S)

    def _wake(self, _: Future[Any]) -> None:
        with contextlib.suppress(BusError):  # the engine looks at its jobs a few times a second anyway
            self._space.put(EVENT, "job", {})
