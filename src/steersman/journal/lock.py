"""Who drives a run: one process at a time, named by a file that it keeps fresh."""

from __future__ import annotations

import contextlib
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
from steersman.system.files import PARTIAL, locked, replace_file
from steersman.system.reading import OddFile

FILE = "driver.json"
BEAT_S = 5.0
SILENT_S = 60.0  # a driver on another machine that has not been heard of for so long is taken for dead


@dataclass(frozen=True)
class Owner:
    """A driver.

    Args:
        started: separates a process from a later one of its number: clock ticks since its machine booted.
        processes: the namespace that its number is of; "": nobody wrote it down.
        elsewhere: the run that it drives, where that is another, of which this one is a copy.
    """

    host: str
    pid: int
    started: int
    silent_s: float
    processes: str = ""
    elsewhere: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def why_gone(self) -> str:
        """Why it cannot be driving any more; "" when it is."""
        if self.elsewhere:
            return f"it drives {self.elsewhere}, of which this is a copy"
        if self.host == platform.node() and self.processes in ("", _processes()):  # a container does not see all
            return "" if _started(self.pid) == self.started else "that process has ended"
        return "" if self.silent_s < SILENT_S else f"it has given no sign of life for {self.silent_s:.0f} s"


def owner(run: Path) -> Owner | None:
    """The driver that the lock of a run names, dead or alive; None when it ended in good order."""
    file = run / FILE
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError, KeyError, OddFile):
        held = json.loads(reading.read(file, run))
        path, number = held.get("run", _run(run))
        elsewhere = path if path != str(run.resolve()) and number != run.stat().st_ino else ""
        which = held["host"], held["pid"], held["started"], _age_s(file), held.get("processes", "")
        return Owner(*which, elsewhere)
    return None


def driven(run: Path, holder: Owner | None = None) -> bool:
    """Whether a process drives a run now, as far as can be seen from here; of a copy, as it was when it was fetched.

    Args:
        holder: what `owner` gave, for those who asked before.
    """
    if origin := copies.of(run):
        return origin.state == "running"
    holder = holder or owner(run)
    return holder is not None and not holder.why_gone


class Lock:
    """Held while a process drives a run.

    Attributes:
        took_over: who held it before and did not let go, in words, or "".
        lost: why it is not ours any more, in words, or "".
    """

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, run / FILE
        self.took_over = ""
        self.lost = ""
        self._over = threading.Event()

    @contextlib.contextmanager
    def held(self) -> Iterator[Lock]:
        """Take it, keep it fresh, let go.

        Raises: RunIsLocked: a living driver holds it.
        """
        with locked(self._run / ".lock"):  # two that want to take over at the same moment: one after the other
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
                if now is None:
                    self.lost = f"its {FILE} was removed, or the whole folder was moved"
                elif (now.host, now.pid, now.started, now.processes) != _us():
                    self.lost = f"another driver has taken this run over: {now}"
                if self.lost:
                    return
                self._write()

    def _write(self) -> None:
        us = dict(zip(("host", "pid", "started", "processes"), _us(), strict=True))
        replace_file(self._file, json.dumps({**us, "run": _run(self._run)}))


def _us() -> tuple[str, int, int, str]:
    return platform.node(), os.getpid(), _started(os.getpid()), _processes()


def _processes() -> str:
    """The namespace in which this process sees others."""
    return os.readlink("/proc/self/ns/pid")


def _run(run: Path) -> tuple[str, int]:
    """Which directory it is: a copy has another path and another number; machines may know one by several paths."""
    return str(run.resolve()), run.stat().st_ino


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
