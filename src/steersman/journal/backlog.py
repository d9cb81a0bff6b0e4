"""Published frames that have no scores yet: since when the oldest of them waits."""

from __future__ import annotations

from collections import deque

PARTS = 128  # the wait is known to such a share of it, so that few marks do however long it is


class Backlog:
    """When frames were published, as far as they are not scored; all are counted in the order of publication."""

    def __init__(self) -> None:
        self._marks = deque[tuple[float, int]]()  # a moment, and the frames that were published from then to the next
        self._published = 0

    def publish(self, t: float, frames: int) -> None:
        self._published += frames
        if self._marks and t - self._marks[-1][0] < (t - self._marks[0][0]) / PARTS:
            t, _ = self._marks.pop()
        self._marks.append((t, self._published))

    def score(self, frames: int, of: int) -> None:
        """So many have scores, of those that count; the others are waited for no more."""
        while self._marks and self._marks[0][1] <= frames + self._published - of:
            self._marks.popleft()

    @property
    def since(self) -> float | None:
        """When the oldest frame that waits was published; None: none does."""
        return self._marks[0][0] if self._marks else None
