"""A program whose clock never jumps, and that leaves no files behind: `steersman-steady PROGRAM ARGUMENTS`.

Parsl's interchange and managers measure durations by wall time: after a step of the clock they take each other for
dead, and all that runs is lost. What a manager starts is a process of its own, which sees the true time.

A manager's helper, which holds its queues, may be killed. The manager would then write about it as fast as it can, for
ever; so it ends with it.

A manager's workers are forked from one process that has imported what each needs, once on a node.

Where walkers share GPUs by NVIDIA's MPS, a manager has its daemon, which the kernel ends with it.

A manager is ended by TERM, and then Python leaves the folder of its sockets in the temporary directory. So this program
names the folder for all processes that it starts, and removes it. One that is killed leaves it, and semaphores in
/dev/shm, if what would remove these is killed too. So their names tell the run, whose next driver removes them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import importlib.metadata
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, cast

from steersman.executors import light
from steersman.system.processes import end_with_parent

STEADY = "steersman-steady"
POOL = "process_worker_pool.py"  # Parsl's manager
MARK = "STEERSMAN_RUN"  # in the environment of all that a driver starts on its machine: <run directory>#<token>
SEMAPHORES = Path("/dev/shm")
GPUS = "STEERSMAN_GPUS"  # the GPU of each of a manager's workers, by their rank
MPS = "STEERSMAN_MPS"  # of a manager whose workers share them by MPS
DIES_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


def main() -> None:
    began = time.time() - time.monotonic()
    time.time = lambda: began + time.monotonic()
    _name_after_run()
    _end_with_helpers()
    light.hollow()
    del sys.argv[0]
    if sys.argv[0] == POOL:
        if MPS in os.environ:
            _share_gpus(Path(cast("Any", multiprocessing.current_process())._config["tempdir"]))
        _fork_workers()
        importlib.metadata.distributions = tuple  # type: ignore[assignment]  # a manager would read each for nobody
    sys.argv[0] = shutil.which(sys.argv[0]) or sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _share_gpus(folder: Path) -> None:
    """Start the MPS daemon of this node's workers, with its pipes in a folder of this process."""
    pipes = dict.fromkeys(("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"), str(folder))
    dies = ctypes.CDLL(None).prctl
    try:
        subprocess.Popen(
            ["nvidia-cuda-mps-control", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env=os.environ | pipes, preexec_fn=lambda: dies(DIES_WITH_PARENT, signal.SIGTERM),
        )  # fmt: skip
    except OSError as error:
        print(f"steersman: no MPS, so walkers of a GPU take turns: {error}", file=sys.stderr)
    else:
        os.environ.update(pipes)


def _fork_workers() -> None:
    """Have Parsl fork workers from a server of multiprocessing, instead of starting Python for each."""
    import parsl.multiprocessing

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["steersman.worker.warm"])
    parsl.multiprocessing.SpawnContext = context
    os.environ["PYTHONSAFEPATH"] = "1"  # a random.py of the user's in this folder is not Python's
    forkserver.ensure_running()  # it imports while the manager does


def _end_with_helpers() -> None:
    """End this process by TERM when a server process of multiprocessing dies that it has not shut down; and that server
    with this process."""
    start = BaseManager.start

    def started(self: Any, initializer: Any = end_with_parent, initargs: tuple[Any, ...] = ()) -> None:
        start(self, initializer, initargs)
        threading.Thread(target=watched, args=(self._process.sentinel, self.shutdown), daemon=True).start()

    def watched(sentinel: int, shutdown: Any) -> None:
        wait([sentinel])
        if shutdown.still_active():
            print("steersman: this manager ends, because its helper was killed", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGTERM)

    BaseManager.start = started  # type: ignore[method-assign, assignment]


def left(run: Path) -> list[Path]:
    """Folders of sockets, and semaphores, that processes of a run made on this machine and did not remove."""
    name = _named(run)
    return [*Path(tempfile.gettempdir()).glob(f"{name}-*"), *SEMAPHORES.glob(f"sem.{name}-*")]


def remove_left(run: Path) -> None:
    """None of the run's processes may live."""
    for each in left(run):
        shutil.rmtree(each, ignore_errors=True)
        with contextlib.suppress(OSError):  # of somebody else
            each.unlink(missing_ok=True)


def _named(run: Path) -> str:
    """What their names begin with: by the folder itself, as another may have the same path in another container."""
    status = run.stat()
    return f"mp-{hashlib.sha256(f'{status.st_dev} {status.st_ino}'.encode()).hexdigest()[:8]}"


def _name_after_run() -> None:
    """Have multiprocessing name sockets and semaphores after the run, here and in all that is started."""
    this, name = cast("Any", multiprocessing.current_process()), "mp"
    if mark := os.environ.get(MARK):
        with contextlib.suppress(OSError):  # on a node where it lies elsewhere
            name = _named(Path(mark.rpartition("#")[0]))
    this._config["semprefix"] = f"/{name}"
    this._config["tempdir"] = sockets = tempfile.mkdtemp(prefix=f"{name}-")
    _remove_at_end(sockets)


def _remove_at_end(sockets: str) -> None:
    """Also on TERM."""
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)

    def end(number: int, frame: Any) -> None:
        shutil.rmtree(sockets, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
