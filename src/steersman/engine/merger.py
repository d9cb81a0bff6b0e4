"""Walkers that have ended -> few groups of frames, merged in a thread beside the loop.

At any moment each frame lies in one whole group at least: a merged group has its name when it was compared with what it
was made of, then it is recorded, and then that is removed. See docs/design/010-files-of-many-walkers.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor

from steersman.journal.recorder import Recorder
from steersman.journal.records import Merged
from steersman.store import Frames, merge, number_of

QUIET_S = 600.0  # a walker has ended for so long: one that was taken for dead has ended by then, see `heartbeat_s`
LOOK_EVERY_S = 10.0
GRACE_S = 60.0  # what was merged stays so long: listings that other machines keep are renewed by then
log = logging.getLogger("steersman.merger")


class Merger:
    """Merges groups of walkers that have ended, one merge at a time.

    Args:
        fan_in: groups that become one.
        quiet_s: how long a walker is gone before its group is merged.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        frames: Frames,
        recorder: Recorder,
        *,
        fan_in: int = merge.FAN_IN,
        quiet_s: float = QUIET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frames = Frames(frames.path)  # for the thread alone
        self._recorder, self._fan_in, self._quiet_s, self._clock = recorder, fan_in, quiet_s, clock
        self._thread = ThreadPoolExecutor(1, "merger")  # not at a low priority: it may hold the GIL
        self._job: Future[tuple[str, list[str], list[str]] | None] | None = None
        self._kinds: dict[str, Hashable] = {}
        self._old = deque[tuple[float, list[str]]]()  # groups that were merged, and when they are to go
        self._look_at, self._closed = -float("inf"), threading.Event()

    def advance(self) -> None:
        """Take what was merged, and begin with what is due."""
        if self._job is not None and self._job.done():
            self._take()
        if self._job is None and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_EVERY_S
            old = []
            while self._old and self._clock() >= self._old[0][0]:
                old += self._old.popleft()[1]
            ended = self._ended()
            if old or len(ended) + len(self._recorder.state.merged) >= self._fan_in:
                self._job = self._thread.submit(self._work, ended, self._recorder.state.next_merged, old)

    def close(self) -> None:
        """Give up what is being merged, and remove what was."""
        self._closed.set()
        self._thread.shutdown()
        if self._job is not None:
            self._take()
        for _, names in self._old:
            for name in names:
                merge.remove(self._frames, name)
        self._old.clear()

    def _ended(self) -> list[str]:
        """Walkers that have ended for good and are in no merged group."""
        state = self._recorder.state
        merged = set().union(*state.merged.values())
        before = self._recorder.now() - self._quiet_s
        return [
            walker.name for walker in state.walkers.values()
            if not (walker.alive or walker.damaged or walker.unreadable or walker.number in merged)
            and (walker.gone or 0.0) <= before
        ]  # fmt: skip

    def _take(self) -> None:
        assert self._job is not None
        job, self._job = self._job, None
        if (done := job.result()) is None:
            return
        group, names, walkers = done
        self._recorder.record(Merged(group=group, walkers=tuple(map(number_of, walkers))))
        self._old.append((self._clock() + GRACE_S, names))
        self._look_at = self._clock()  # there may be more

    def _work(self, ended: list[str], number: int, old: list[str]) -> tuple[str, list[str], list[str]] | None:
        """In the thread: remove what is old, merge what is due.

        Returns: the new group, the groups that it was made of, and its walkers.
        """
        names: list[str] = []
        try:
            for name in old:
                merge.remove(self._frames, name)
            names = merge.due(self._frames, ended, self._kinds, self._fan_in)
            if names and merge.has_room(self._frames, names):
                group = f"m{number}"
                return group, names, merge.merge(self._frames, names, group, stopped=self._closed.is_set)
        except Exception as error:  # whatever damaged groups make their reader raise, or a disk that is full
            if not self._closed.is_set():
                log.warning("%s are not merged: %s: %s", ", ".join(names), type(error).__name__, error)
            self._kinds |= dict.fromkeys(names)  # not again
        return None


def settle(recorder: Recorder, frames: Frames) -> None:
    """After a driver that died: record merged groups that it could not record, and remove what merges have left."""
    for group, walkers in frames.merged().items():
        if group not in recorder.state.merged:
            recorder.record(Merged(group=group, walkers=tuple(map(number_of, walkers))))
    for name in merge.left_over(frames):
        if name not in recorder.state.merged:
            merge.remove(frames, name)
