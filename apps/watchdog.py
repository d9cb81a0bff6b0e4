"""A process that hangs, or whose parent died -> it ends, so that its slot can be used again."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable

LOOK_S = 1.0
GRACE_S = 30.0  # after it was told to stop, or less where hanging itself is counted in less


def patience(hang_s: float) -> Callable[[], None]:
    """A function to call at every sign of life; without one for hang_s and a grace, the process ends itself.

    It writes where it hung to standard error first. The clock runs in C: code that never lets go of the interpreter
    does not stop it.
    """

    def alive() -> None:
        faulthandler.dump_traceback_later(hang_s + min(hang_s, GRACE_S), exit=True)

    return alive


def at_rest() -> None:
    """No sign of life is expected now."""
    faulthandler.cancel_dump_traceback_later()


def end_with_parent() -> None:
    """End this process within a second when its parent dies: Parsl's workers would go on without their manager."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="end-with-parent", daemon=True).start()
