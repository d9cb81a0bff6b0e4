"""Threads of the driver, which score what is light: see docs/design/007-executors.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from steersman.executors.executor import Executor

if TYPE_CHECKING:
    from steersman.executors.site import Site


class Threads(Executor):
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

    def where(self, site: Site) -> str:
        return (
            "in a thread of the driver: for light scores only, since a hang cannot be ended and a crash ends the driver"
        )

    def parsl(self, site: Site, role: str, provider: Any) -> Any:
        """At the end a thread that hangs is not waited for."""
        from parsl.executors import ThreadPoolExecutor

        class Unwaited(ThreadPoolExecutor):  # type: ignore[misc]  # Parsl has no types
            def shutdown(self, block: bool = False) -> None:
                super().shutdown(block=False)

        return Unwaited(role, self.threads, thread_name_prefix=role)
