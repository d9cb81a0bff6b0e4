"""Who drives a run: one process at a time, told by a file that it keeps fresh."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from steersman.journal.errors import RunIsLocked
from steersman.system.files import replace_file

BEAT_S = 5.0
CLOCK_S = 5.0  # the time of a process's start moves with corrections of the machine's clock
SILENT_S = 60.0  # a driver on another machine that has not been heard of for so long is taken for dead


@dataclass(frozen=True)
class Owner:
    """A driver. `started` tells a process from a later one of the same number."""

    host: str
    pid: int
    started: float
    beat: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def why_gone(self) -> str:
        """Why it cannot be driving any more; "" when it is."""
        if self.host == platform.node():
            same = abs(_started(self.pid) - self.started) < CLOCK_S
            return "" if same else "that process is gone"
        silent_s = time.time() - self.beat
        return "" if silent_s < SILENT_S else f"it has not been heard of for {silent_s:.0f} s"


def owner(run: Path) -> Owner | None:
    """The driver that the lock of a run names, dead or alive; None when it ended in good order."""
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        return Owner(**json.loads((run / "driver.json").read_text()))
    return None


def driven(run: Path) -> bool:
    """Whether a process drives a run now, as far as can be seen from here."""
    holder = owner(run)
    return holder is not None and not holder.why_gone


class Lock:
    """Held while a process drives a run.

    Attributes:
        took_over: who held it before and did not let go, in words, or "".
        lost: another driver took it, because it could not hear of us.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / "driver.json"
        self.took_over = ""
        self.lost = False
        self._over = threading.Event()

    @contextlib.contextmanager
    def held(self) -> Iterator[Lock]:
        """Take it, keep it fresh, let go.

        Raises: RunIsLocked: a living driver holds it.
        """
        with _alone(self._run):
            before = owner(self._run)
            if before and not (gone := before.why_gone):
                raise RunIsLocked(str(self._run), str(before))
            self.took_over = f"{before} held the lock of this run, but {gone}; it is taken over" if before else ""
            self._write()
        beat = threading.Thread(target=self._beat, name="lock", daemon=True)
        beat.start()
        try:
            yield self
        finally:
            self._over.set()
            beat.join()
            with contextlib.suppress(FileNotFoundError):
                if not self.lost:
                    self._file.unlink()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError):  # a full disk is told by the journal; one that is away comes back
                now = owner(self._run)
                if now is None or (now.host, now.pid) != (platform.node(), os.getpid()):
                    self.lost = True
                    return
                self._write()

    def _write(self) -> None:
        us = Owner(platform.node(), os.getpid(), _started(os.getpid()), time.time())
        replace_file(self._file, json.dumps(asdict(us)))


def _started(pid: int) -> float:
    """When a process started; 0 when there is none."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return float(process.create_time())
    return 0.0


@contextlib.contextmanager
def _alone(run: Path) -> Iterator[None]:
    """Two that want to take over at the same moment: one after the other."""
    with (run / ".lock").open("w") as file:
        with contextlib.suppress(OSError):  # some file systems of clusters are mounted without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
