"""Functions of `tasks` -> Parsl: submitted to an executor, their end told over the bus."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel

from steersman.apps.walker import EVENT
from steersman.bus import BusError, TupleSpace

CLEANUP_S = 20.0  # Parsl's cleanup can hang on a broken executor; its workers die with the driver anyway


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

    def close(self) -> None:
        cleanup = threading.Thread(target=self._kernel.cleanup, name="parsl-cleanup", daemon=True)
        cleanup.start()
        cleanup.join(CLEANUP_S)

    def _wake(self, _: Future[Any]) -> None:
        with contextlib.suppress(BusError):  # the engine looks at its jobs a few times a second anyway
            self._space.put(EVENT, "job", {})
