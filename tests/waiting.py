"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS_S = 240.0  # it ends what hangs, and nothing else: the machine may be busy


def until(reached: Callable[[], bool], look_s: float = 0.005) -> None:
    """Look again and again; an AssertionError when it does not happen."""
    deadline = time.monotonic() + HANGS_S
    while not reached():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(look_s)
