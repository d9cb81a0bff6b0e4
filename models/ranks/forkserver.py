"""Ranks forked from a process that has imported torch: `python -m steersman.models.ranks.forkserver HANDLE`.

To import torch takes a rank seconds of a core. The server does it once, has one thread and touches no GPU, so its forks
are as new processes. It is kept for the next training; it ends with the process that started it, and its ranks with it.
"""

from __future__ import annotations

import atexit
import faulthandler
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import torch

from steersman.system.processes import end

RANK = "steersman.models.ranks.rank"
GRACE_S = 10.0  # for the others to say what they saw when one has failed
LOOK_S = 0.05


class SpawnRequest(NamedTuple):
    """A rank that is to begin: its job's folder, the module of its target, its environment, and where it runs."""

    rank: int
    folder: str
    module: str
    environment: dict[str, str]
    here: str


def run(
    folder: Path, module: str, ranks: Mapping[int, Mapping[str, str]], failed: Callable[[], bool]
) -> dict[int, int | None]:
    """Run ranks, each in its environment, until all have ended, or one has failed and the others had time to notice.

    Args:
        folder: of their job, see launch().
        module: where their target is.
        failed: whether a rank of another node has failed.
    Returns: exit codes; None: it had not ended, and was killed.
    """
    with _one_at_a_time:
        server = _kept.pop() if _kept else _Server()
        codes: dict[int, int | None] = {}
        try:
            codes = server.run(
                [SpawnRequest(n, str(folder), module, dict(ranks[n]), os.getcwd()) for n in ranks], failed
            )
        finally:
            if codes and not any(code != 0 for code in codes.values()):
                _kept.append(server)
            else:  # ranks may be left in it
                server.close()
    return codes


class _Server:
    """The server, seen from the process that started it."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "steersman.models.ranks.forkserver", str(theirs.fileno())]
            # Read when torch is imported: have one thread, and ask whether there are GPUs without touching them.
            environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], process_group=0
            )

    def run(self, orders: list[SpawnRequest], failed: Callable[[], bool]) -> dict[int, int | None]:
        codes: dict[int, int | None] = {order.rank: None for order in orders}
        limit = math.inf
        try:
            for order in orders:
                self._pipe.send(order)
            while None in codes.values() and time.monotonic() < limit:
                if self._pipe.poll(LOOK_S):
                    rank, code = self._pipe.recv()
                    codes[rank] = code
                if any(codes.values()) or failed():
                    limit = min(limit, time.monotonic() + GRACE_S)
        except (EOFError, ConnectionError):  # it was killed, and its ranks end with it
            return {rank: -signal.SIGKILL if code is None else code for rank, code in codes.items()}
        return codes

    def close(self) -> None:
        """End it, and its ranks, of which none may write a word more: the next training may have the same folder."""
        self._pipe.close()
        end(self._process.pid, GRACE_S, group=True)
        self._process.wait()


_kept: list[_Server] = []
_one_at_a_time = threading.Lock()


@atexit.register
def _close() -> None:
    while _kept:
        _kept.pop().close()


def serve(pipe: Connection) -> None:
    """Fork a rank for each order and say how it ended, until the other side is gone; then kill those that are left."""
    ranks: dict[int, int] = {}  # by process
    with suppress(EOFError, ConnectionError):
        while True:
            if pipe.poll(LOOK_S if ranks else None):
                order: SpawnRequest = pipe.recv()
                if order.module.partition(".")[0] == "steersman":  # modules of others may start threads
                    with suppress(ImportError):  # the rank says so
                        import_module(order.module)
                pid = os.fork()
                if pid == 0:
                    pipe.close()
                    _be(order)
                ranks[pid] = order.rank
            for pid in list(ranks):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    pipe.send((ranks.pop(pid), os.waitstatus_to_exitcode(status)))
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be(order: SpawnRequest) -> NoReturn:
    """Be a rank, as `python -m steersman.models.ranks.rank` is one."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(order.environment)
        os.chdir(order.here)
        sys.path[:1] = [order.here, *filter(None, order.environment.get("PYTHONPATH", "").split(os.pathsep))]
        with open(f"{order.folder}/rank{order.rank}.stderr", "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if any(kind._is_in_bad_fork() for kind in (torch.cuda, torch.xpu)):  # an import has looked at a GPU after all
            os.execv(sys.executable, [sys.executable, "-X", "faulthandler", "-m", RANK, order.folder])
        faulthandler.enable()
        np.random.seed()  # noqa: NPY002 (that of a new process; Python's own has been seeded by the fork)
        code = import_module(RANK).main(Path(order.folder))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    import_module(RANK)
    torch.optim.SGD([torch.zeros(1)])  # for the first optimizer torch imports 800 modules more
    serve(Connection(int(sys.argv[1])))
