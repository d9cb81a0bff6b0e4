"""A process that hangs -> it ends, so that its slot can be used again."""

from __future__ import annotations

import faulthandler
import math
from typing import Self

GRACE_S = 30.0  # after it was asked to stop, or less where hanging itself is counted in less


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
