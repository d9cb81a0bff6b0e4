"""A program whose clock never jumps: `steersman-steady PROGRAM ARGUMENTS`.

Parsl's interchange and managers measure durations by wall time: after a step of the clock they take each other for
dead, and all that runs is lost. What a manager starts is a process of its own, which sees the true time.
"""

from __future__ import annotations

import runpy
import shutil
import sys
import time

STEADY = "steersman-steady"


def main() -> None:
    began = time.time() - time.monotonic()
    time.time = lambda: began + time.monotonic()
    del sys.argv[0]
    sys.argv[0] = shutil.which(sys.argv[0]) or sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
