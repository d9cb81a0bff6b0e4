"""Who drives a run: one process at a time, named by a file that it keeps fresh."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from steersman.journal import copies
from steersman.journal.errors import RunIsLocked
from steersman.system import reading
from steersman.system.files import PARTIAL, replace_file
from steersman.system.reading import OddFile

FILE = "driver.json"
BEAT_S = 5.0
SILENT_S = 60.0  # a driver on another machine that has not been heard of for so long is taken for dead


@dataclass(frozen=True)
class Owner:
    """A driver. `started` separates a process from a later one of its number: clock ticks since its machine booted."""

    host: str
    pid: int
    started: int
    silent_s: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def why_gone(self) -> str:
        """Why it cannot be driving any more; "" when it is."""
        if self.host == platform.node():
            return "" if _started(self.pid) == self.started else "that process has ended"
        return "" if self.silent_s < SILENT_S else f"it has given no sign of life for {self.silent_s:.0f} s"


def owner(run: Path) -> Owner | None:
    """The driver that the lock of a run names, dead or alive; None when it ended in good order."""
    file = run / FILE
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError, KeyError, OddFile):
        found = json.loads(reading.read(file, run))
        return Owner(found["host"], found["pid"], found["started"], _age_s(file))
    return None


def driven(run: Path) -> bool:
    """Whether a process drives a run now, as far as can be seen from here; of a copy, as it was when it was fetched."""
    if origin := copies.of(run):
        return origin.state == "running"
    holder = owner(run)
    return holder is not None and not holder.why_gone


class Lock:
    """Held while a process drives a run.

    Attributes:
        took_over: who held it before and did not let go, in words, or "".
        lost: another driver took it, because it could not hear of us.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / FILE
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
            self.took_over = f"{before} held the lock of this run, but {gone}; it was taken over" if before else ""
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
            with contextlib.suppress(OSError):  # a full disk is reported by the journal; one that is away comes back
                now = owner(self._run)
                if now is None or (now.host, now.pid) != (platform.node(), os.getpid()):
                    self.lost = True
                    return
                self._write()

    def _write(self) -> None:
        us = {"host": platform.node(), "pid": os.getpid(), "started": _started(os.getpid())}
        replace_file(self._file, json.dumps(us))


def _started(pid: int) -> int:
    """When a process started, in clock ticks since the boot, which no step of the clock moves; 0 when there is none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state, *after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if state == "Z" else int(after[18])  # see proc(5): 3 is the state, 22 the start
    return 0


def _age_s(file: Path) -> float:
    """How long ago a file was written, by the clock of its file system: machines that share one may not agree."""
    try:
        with TemporaryFile(dir=file.parent, suffix=PARTIAL) as fresh:
            now = os.fstat(fresh.fileno()).st_mtime
    except OSError:  # we may only read here
        now = time.time()
    return now - file.stat().st_mtime


@contextlib.contextmanager
def _alone(run: Path) -> Iterator[None]:
    """Two that want to take over at the same moment: one after the other."""
    file = run / ".lock"
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        raise OddFile(str(file), "it is no regular file; remove it") from None
    with os.fdopen(handle, "w") as opened:
        with contextlib.suppress(OSError):  # some file systems of clusters are mounted without locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
