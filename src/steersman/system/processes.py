"""Processes of this machine: whether one lives, how it is ended, and how it ends with the one that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator

import psutil

LOOK_S = 0.01
PARENT_LOOK_S = 1.0


def lives(pid: int) -> bool:
    """Whether any thread of a process is left that could still do something: a zombie is dead, reaped or not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    return False


def holds_port(pid: int, port: int) -> bool:
    """Whether it is this process of ours that listens at a TCP port: whoever else does may say anything."""
    with contextlib.suppress(psutil.Error):
        sockets = psutil.Process(pid).net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in sockets)
    return False


def end(pid: int, grace_s: float, *, group: bool = False) -> bool:
    """Ask a process, or a whole process group, to end by TERM; KILL it when it has not within `grace_s`.

    Returns: whether it is dead, `grace_s` after KILL at the latest. Whoever started it still has to reap it, while the
    first process of a container reaps late or never: nobody waits for that here.
    """
    send, left = (os.killpg, _group_lives) if group else (os.kill, lives)
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            send(pid, number)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + grace_s
        while left(pid) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        if not left(pid):
            return True
    return False


@contextlib.contextmanager
def children_end() -> Iterator[None]:
    """A child that is forked within, and returns or raises as its parent does, ends: it would go on as its double."""
    parent = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != parent:
            os._exit(0)


def end_with_parent() -> None:
    """End this process when the one that wanted it dies, at the latest a second later: a worker would go on without its
    manager. Its parent may be another one, a server of forks, which lives as long as what it has forked."""
    wanted_by, parent = multiprocessing.parent_process(), os.getppid()

    def look() -> None:
        if wanted_by is not None:
            wanted_by.join()
        while wanted_by is None and os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="end-with-parent", daemon=True).start()


def _group_lives(group: int) -> bool:
    return any(_group_of(pid) == group and lives(pid) for pid in psutil.pids())


def _group_of(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None
