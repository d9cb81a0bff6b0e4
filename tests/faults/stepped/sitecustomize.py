"""Stands first on the path of a campaign's processes: their wall clock is ahead by what a file says."""

import contextlib
import os
import time

_true = time.time


def _stepped() -> float:
    with contextlib.suppress(OSError, ValueError), open(os.environ["STEPPED_CLOCK"]) as file:
        return _true() + float(file.read())
    return _true()


time.time = _stepped
