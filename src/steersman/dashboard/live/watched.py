"""A run directory -> what viewers see of it: one History, read by one thread, for all of them.

The reader goes on while somebody looks. Viewers ask by the number of the change that they know, and get what is newer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from steersman.data.clock import Clock
from steersman.data.history import History
from steersman.data.point_cloud import PointCloud
from steersman.data.segment_table import SegmentTable
from steersman.journal.records import VERSIONED
from steersman.journal.run_directory import RunDirectory
from steersman.journal.segments import HOW
from steersman.stages import loading, trust
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import StopRule
from steersman.system import reading
from steersman.system.errors import EngineError, told

REFRESH_S = 0.25  # between two looks at the journal
SHARE = 0.25  # of one core, at most, goes into looking: a large run is looked at less often
UNWATCHED_S = 15.0  # after so long without a viewer nobody looks


class Watched:
    """A run that people look at.

    Args:
        keep: keep what was read when nobody looks any more; else it is read again for the next viewer.
        trusted: run the code of its workflow file, for its stop rule, yardsticks, figures and panels. By default only
            what `trust.trusted` knows.
    Attributes:
        lock: held while the history changes, and by those who read it.
        change: number of the newest change; 0 before the run is read.
        trouble: why the run cannot be read, or "".
    """

    def __init__(self, directory: RunDirectory, key: str, *, keep: bool = True, trusted: bool | None = None) -> None:
        self.directory, self.key, self.keep = directory, key, keep
        self._trusted = trusted
        self.lock = threading.RLock()
        self.change = 0
        self.trouble = ""
        self.drawn: dict[str, tuple[int, float, bytes]] = {}  # panels: at which change, when, and what
        self._history: History | None = None
        self._file = (0, 0)  # device and inode of the journal that is read
        self._noted = -1  # place in the journal of the newest change
        self._looked = -1e9
        self._took = 0.0
        self._current = threading.Event()  # the reader is at work, and has tried to read what there is
        self._columns: dict[str, np.ndarray] = {}
        self._changed = np.empty(0, np.int64)  # by segment: the change that it was part of
        self._cloud: PointCloud | None = None
        self._workflow: Workflow | None = None
        self._clock: Clock | None = None
        self._thread: threading.Thread | None = None
        self._reader = threading.Lock()  # held while the reader begins or ends

    @classmethod
    def of(cls, history: History) -> Watched:
        """A run whose history was read, as it is now."""
        watched = cls(history.directory, history.directory.path.name)
        watched._history = history
        watched._note_changes()
        watched._current.set()
        return watched

    # For viewers

    def look(self) -> None:
        """Somebody looks: the reader goes on, or begins."""
        with self._reader:
            self._looked = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name=f"reader of {self.key}", daemon=True)
                self._thread.start()

    def wait(self, seconds: float = 0.0) -> bool:
        """Wait for the reader; returns whether the run is read as it is now, and not as its last viewer saw it."""
        return self._current.wait(seconds) and not self.trouble

    @functools.cached_property
    def trusted(self) -> bool:
        if self._trusted:
            trust.trust(self.directory.workflow)
        return self._trusted is not False and trust.trusted(self.directory.workflow)

    @property
    def share_read(self) -> float:
        """Share of the journal that was read, 0 to 1."""
        history = self._history
        if history is None:
            return 0.0
        with contextlib.suppress(OSError):
            return min(1.0, history.place.offset / max(1, os.stat(self.directory.journal).st_size))
        return 0.0

    @property
    def history(self) -> History:
        assert self._history is not None
        return self._history

    @property
    def table(self) -> SegmentTable:
        return self.history.segments

    @property
    def clock(self) -> Clock:
        """The history's, made once a change."""
        if self._clock is None:
            self._clock = self.history.clock
        return self._clock

    @property
    def cloud(self) -> PointCloud:
        if self._cloud is None:
            self._cloud = PointCloud(self.directory.scores)
        return self._cloud

    def segments_since(self, change: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Segments that began or changed after a change: (n,) int32 of their positions, and their columns."""
        at = np.flatnonzero(self._changed > change).astype(np.int32)
        return at, {name: column[at] for name, column in self._columns.items()}

    def column(self, name: str) -> np.ndarray:
        """A column of the segments, see `columns_of`."""
        return self._columns[name]

    def came(self) -> dict[int, float]:
        """When each walker began its first segment, in seconds since 1970."""
        walkers, first = np.unique(self.table.walker, return_index=True)
        return dict(zip(walkers.tolist(), self.table.began[first].tolist(), strict=True))

    def workflow(self) -> tuple[Workflow, Params] | None:
        """The run's workflow and its parameters as they are now; None when its code is not run.

        Raises: BadInput: the file, or the parameters, can no longer be read.
        """
        if not (self.trusted and self.directory.workflow.exists() and self.directory.settings_file.exists()):
            return None
        if self._workflow is None:
            with LOADING:
                self._workflow = loading.load(self.directory.workflow)
        return self._workflow, loading.checked(self._workflow, self.history.settings()["params"])

    def stop_rule(self) -> StopRule | None:
        """What ends the run; None when its code is not run, or can no longer be."""
        with contextlib.suppress(EngineError):
            if loaded := self.workflow():
                return loaded[0].stop_rule(loaded[1])
        return None

    # The reader

    def _go_on(self) -> None:
        while self._is_watched():
            try:
                self._refresh()
                self.trouble = ""
            except Exception as error:  # whatever a damaged file makes its reader raise: viewers see it
                self.trouble = str(error) if isinstance(error, EngineError) else told(error)
            self._current.set()
            time.sleep(max(REFRESH_S, self._took * (1 / SHARE - 1)))

    def _is_watched(self) -> bool:
        """Whether somebody looked lately; else the reader ends, and the next viewer waits for a new one."""
        with self._reader:
            if time.monotonic() - self._looked < UNWATCHED_S:
                return True
            self._thread = None
            self._current.clear()
            if not self.keep:
                self._begin((0, 0))
            return False

    def _refresh(self) -> None:
        began = time.thread_time()
        with _opened(self.directory.journal) as (file, size):
            if file != self._file or (self._history and size < self._history.place.offset):
                self._begin(file)  # another journal lies here now
        with self.lock:
            self.history.catch_up()
            if self._noted != self.history.place.offset:
                self._note_changes()
        self._took = time.thread_time() - began if self.change > 1 else 0.0

    def _begin(self, file: tuple[int, int]) -> None:
        with self.lock:
            self._file, self._noted, self._cloud = file, -1, None
            self._history = History(self.directory, read=False)
            self._columns, self._changed = {}, np.empty(0, np.int64)

    def _note_changes(self) -> None:
        """Compare the table of segments with the one before."""
        with self.lock:
            self.change, self._noted = self.change + 1, self.history.place.offset
            self._clock = None
            columns = columns_of(self.history)
            old, new = len(self._changed), len(columns["walker"])
            changed = np.full(new, self.change)
            if 0 < old <= new:
                same = [columns[name][:old] == column for name, column in self._columns.items()]
                changed[:old] = np.where(np.logical_and.reduce(same), self._changed, self.change)
            self._columns, self._changed = columns, changed


LOADING = threading.Lock()  # a workflow file is imported under one name


def columns_of(history: History) -> dict[str, np.ndarray]:
    """What the page keeps of every segment: times in seconds of `WallTime`, 0 for an end that is not there."""
    table, starts = history.segments, history.starts
    known = (table.start >= 0) & (table.start < len(starts))
    chosen = starts["policy"][np.where(known, table.start, 0)] if len(starts) else np.zeros(len(table), np.int64)
    how = np.zeros(len(table), np.uint8)
    for code, word in enumerate(HOW):
        how[table.how == word] = code
    elapsed = history.wall_time.elapsed
    running = how == HOW.index("running")
    return {
        "walker": table.walker.astype(np.int32),
        "number": table.number.astype(np.int32),
        "slot": table.slot.astype(np.int32),
        "began": elapsed(table.began).astype(np.float32),
        "ended": np.where(running, 0.0, elapsed(table.ended)).astype(np.float32),
        "how": how,
        "policy": np.where(known, chosen, 255).astype(np.uint8),
        "model": np.minimum(table.model, 65535).astype(np.uint16),
        **{what: np.minimum(table.given[what], 65535).astype(np.uint16) for what in VERSIONED if what in table.given},
        "parent": table.parent.astype(np.int32),
        "first": table.first.astype(np.int32),
        "frames": (table.end - table.first).astype(np.int32),
    }


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[tuple[int, int], int]]:
    """Device and inode of a file, and its size; opened first, for a shared file system may remember an older size."""
    with reading.opened(path, path.parent) as file:
        status = os.fstat(file.fileno())
        yield (status.st_dev, status.st_ino), status.st_size
