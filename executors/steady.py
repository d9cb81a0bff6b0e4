"""A program whose clock never jumps, and that leaves no files behind: `steersman-steady PROGRAM ARGUMENTS`.

Parsl's interchange and managers measure durations by wall time: after a step of the clock they take each other for
dead, and all that runs is lost. What a manager starts is a process of its own, which sees the true time.

A manager is ended by TERM, and then Python leaves the folder of its sockets in the temporary directory. So this program
names the folder for all processes that it starts, and removes it.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

STEADY = "steersman-steady"


def main() -> None:
    began = time.time() - time.monotonic()
    time.time = lambda: began + time.monotonic()
    _remove_at_end(tempfile.mkdtemp(prefix="pymp-"))
    del sys.argv[0]
    sys.argv[0] = shutil.which(sys.argv[0]) or sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _remove_at_end(sockets: str) -> None:
    """Have multiprocessing put its sockets there, here and in all that is started; and remove them, also on TERM."""
    this: Any = multiprocessing.current_process()
    this._config["tempdir"] = sockets
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)

    def end(number: int, frame: Any) -> None:
        shutil.rmtree(sockets, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
