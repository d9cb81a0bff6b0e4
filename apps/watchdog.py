"""A process that hangs, or whose parent died -> it ends, so that its slot can be used again."""

from __future__ import annotations

import faulthandler
import math
import os
import threading
import time
from typing import Self

LOOK_S = 1.0
GRACE_S = 30.0  # after it was told to stop, or less where hanging itself is counted in less


class Watchdog:
    """Ends its process when it hears no sign of life for hang_s and a grace; a context manager, at rest outside of it.

    It writes where the process hung to standard error first. The clock runs in C: code that never lets go of the
    interpreter does not stop it.

    Args:
        hang_s: seconds; with infinity it sleeps.
    """

    def __init__(self, hang_s: float = math.inf) -> None:
        self.hang_s = hang_s

    def alive(self) -> None:
        """Hear a sign of life."""
        if self.hang_s < math.inf:
            faulthandler.dump_traceback_later(self.hang_s + min(self.hang_s, GRACE_S), exit=True)

    def __enter__(self) -> Self:
        self.alive()
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()


def end_with_parent() -> None:
    """End this process within a second when its parent dies: Parsl's workers would go on without their manager."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="end-with-parent", daemon=True).start()
