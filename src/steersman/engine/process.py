"""What a driver asks of its own process: memory, open files, signals."""

from __future__ import annotations

import ctypes
import errno
import resource
import signal
from pathlib import Path
from types import FrameType
from typing import Any

from steersman.journal.errors import no_room
from steersman.system.node import processes_left

M_MMAP_THRESHOLD = -3  # malloc.h
LARGE_BYTES = 2**18
OF_A_DRIVER, OF_AN_EXECUTOR, OF_A_WORKER = 40, 12, 4  # processes and threads: counted in small runs
FEWEST_FILES = 256  # Parsl's sockets alone abort the process for want of fewer


def give_large_arrays_back() -> None:
    """Let the memory of an array go back to the system when the array goes.

    A driver looks at all frames again and again, in arrays that grow; glibc would keep what they leave: once a large
    block was freed, it takes blocks of up to 32 MB from its heap. Another C library is left as it is.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def allow_many_files(run: Path) -> None:
    """Lift the limit of open files as far as it may go: Parsl's sockets grow with the workers. Raises: EngineError."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most < FEWEST_FILES:
        words = f"a process may open only {most} files here, a run needs {FEWEST_FILES} (`ulimit -n {FEWEST_FILES}`)"
        raise no_room(run, words)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def expect_processes(run: Path, executors: int, workers: int) -> None:
    """See that the processes and threads of a run may be started. Raises: EngineError.

    Args:
        executors, workers: on this machine.
    """
    wanted = OF_A_DRIVER + OF_AN_EXECUTOR * executors + OF_A_WORKER * workers
    if (left := processes_left()) < wanted:
        words = f"{left:.0f} more processes and threads may be started here, a run with {workers} workers has {wanted}"
        raise no_room(run, f"{words} (`ulimit -u`, or `pids.max` of the container)")


def no_process(error: BaseException) -> bool:
    """Whether the system refused another thread or process."""
    return "can't start new thread" in str(error) or (isinstance(error, OSError) and error.errno == errno.EAGAIN)


class Interrupts:
    """Within it, Ctrl-C, TERM and a terminal that goes are counted; at the second one KeyboardInterrupt is raised."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it was started by nohup
            numbers.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._interrupt) for number in numbers}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 2:
            raise KeyboardInterrupt
