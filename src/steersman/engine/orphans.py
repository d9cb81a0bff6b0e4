"""A dead driver -> no process of its run is left: bus server, interchange, managers, workers and what they started.

Every process that a driver starts inherits a mark in its environment. A small warden process waits for the driver's
death and ends all that bear its mark; where the warden was killed too, the next driver does it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from steersman.bus.addresses import LOG_FILE, bus_of
from steersman.executors.steady import MARK, remove_left
from steersman.system.processes import lives

KEEP_ENVIRONMENT = "SPT_NOENV"  # setproctitle, which Parsl uses, would write titles over the environment
WAIT_S = 5.0  # for what a kill was sent to; a process that waits for its disk dies when that answers
EXEC_S = 1.0
LOOK_S = 0.005


def marked(wanted: str) -> list[psutil.Process]:
    """This user's processes on this machine whose mark begins so."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK, "").startswith(wanted):
                processes.append(process)
    return processes


def of_run(run: Path) -> list[psutil.Process]:
    """All processes that drivers of a run started, dead or alive."""
    return [*marked(f"{run.resolve()}#"), *servers(run)]


def servers(run: Path) -> list[psutil.Process]:
    """The bus servers of a run, which write their titles over their marks; each writes the log in its own folder.

    Also one whose driver died before it wrote where the server is.
    """
    logs = {Path(place) / LOG_FILE for place in bus_of([run.resolve() / "bus"]).places}
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(f"/proc/{process.pid}/fd/1").readlink() in logs:
                processes.append(process)
    return processes


def end(processes: list[psutil.Process]) -> int:
    """End them at once; returns how many there were. What is dead is not waited for until somebody reaps it: the first
    process of a container takes seconds, or never does.

    Python's resource trackers end by themselves once the others are dead, and remove the semaphores that these left in
    /dev/shm: seven for each pool of workers.
    """
    trackers = [process for process in processes if _tracks_resources(process)]
    _kill([process for process in processes if process not in trackers])
    _wait(trackers, WAIT_S)  # one that was started just now still has to import what it is
    _kill(trackers)
    return len(processes)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(processes, WAIT_S)


def _wait(processes: list[psutil.Process], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while any(lives(process.pid) for process in processes) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _tracks_resources(process: psutil.Process) -> bool:
    """For a moment a process that becomes another program has no command line."""
    deadline = time.monotonic() + EXEC_S
    with contextlib.suppress(psutil.Error):
        while not (words := process.cmdline()) and lives(process.pid) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return "multiprocessing.resource_tracker" in " ".join(words)
    return False


def reap_earlier(run: Path, keep: Collection[int] = ()) -> int:
    """End what is left over from earlier in this run; the warden of this driver, and processes `keep`, stay."""
    ours = os.environ.get(MARK, "")
    ended = end([each for each in of_run(run) if each.pid not in keep and not _is_warden(each, ours)])
    remove_left(run)
    return ended


@contextlib.contextmanager
def guarded(run: Path) -> Iterator[None]:
    """Mark all that is started meanwhile, and have it ended when this process dies."""
    os.environ[KEEP_ENVIRONMENT] = "1"
    before = os.environ.get(MARK)
    mark = os.environ[MARK] = f"{run.resolve()}#{secrets.token_hex(4)}"
    warden = subprocess.Popen(  # -P: a random.py, say, of the user's in this folder is not Python's
        [sys.executable, "-P", "-m", "steersman.engine.orphans", mark],
        stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        assert warden.stdin is not None
        warden.stdin.close()  # what is left over is ended now
        warden.wait()
        os.environ.pop(MARK) if before is None else os.environ.update({MARK: before})


def _is_warden(process: psutil.Process, mark: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[-1:] == [mark]
    return False


if __name__ == "__main__":
    sys.stdin.buffer.read()  # ends when the driver does, however it ends
    end([*marked(sys.argv[-1]), *servers(Path(sys.argv[-1].rpartition("#")[0]))])
