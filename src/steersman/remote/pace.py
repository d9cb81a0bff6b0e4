"""Requests to a service that allows so many in a time: how long to wait before the next one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

REQUESTS, WITHIN_S = 16, 10.0  # of the 20 that the service allows in 10 s: others may ask as the same user


class RateLimit:
    """Waits before a request that would be one too many.

    Args:
        clock, sleep: seconds, and how to let them pass.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._made = deque[float](maxlen=REQUESTS)

    def wait(self) -> None:
        if len(self._made) == REQUESTS and (rest := self._made[0] + WITHIN_S - self._clock()) > 0:
            self._sleep(rest)
        self._made.append(self._clock())


def growing(first_s: float, most_s: float) -> Iterator[float]:
    """Intervals that grow from the first to the longest, and stay there."""
    interval = first_s
    while True:
        yield interval
        interval = min(most_s, 1.2 * interval)
