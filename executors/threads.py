"""Threads of the driver, which score what is light: see docs/design/007-executors.md."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steersman.executors.executor import Blockless


class Threads(Blockless):
    """Threads of the driver, for light scores. They cannot be ended, and a crash ends the driver.

    Args:
        threads: number of threads.
    """

    KEY = "threads"
    in_driver = True

    threads: int = Field(ge=1)

    @property
    def gpus_held(self) -> int:
        return 0

    def where(self) -> str:
        return (
            "in a thread of the driver: for light scores only, since a hang cannot be ended and a crash ends the driver"
        )

    def parsl(self, site: str, role: str) -> Any:
        """At the end a thread that hangs is not waited for."""
        from parsl.executors import ThreadPoolExecutor

        class Unwaited(ThreadPoolExecutor):  # type: ignore[misc]  # Parsl has no types
            def shutdown(self, block: bool = False) -> None:
                super().shutdown(block=False)

        return Unwaited(role, self.threads, thread_name_prefix=role)
