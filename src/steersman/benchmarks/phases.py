"""Where the time of a small campaign goes: from the command to the first frames, and from the last ones to the prompt.

`steersman run` is started as a person would; its journal tells when each phase ended, and the processor time of all its
processes is looked at meanwhile.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from steersman.engine import orphans
from steersman.journal import file as journal
from steersman.journal.records import End, Hired, Joined, Left, Published, Record, Session
from steersman.system.errors import BadInput

LOOK_S = 0.2
BEFORE = {
    "imports and plan": Session,
    "bus, Parsl, prepare": Hired,
    "workers' imports": Joined,
    "first frames": Published,
}


def measure(folder: Path, workflow: str, settings: list[str]) -> dict[str, dict[str, float]]:
    """Run a workflow; phase -> wall and processor seconds, in their order. Raises: BadInput: it did not end well."""
    run = folder / "run"
    words = [sys.executable, "-P", "-m", "steersman.cli", "run", workflow, "--run-dir", str(run)]
    began = time.time()
    with subprocess.Popen(
        [*words, *(word for each in settings for word in ("--set", each))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        used = _Used(process.pid, run)
        said, _ = process.communicate()
        used.stop()
    ended = time.time()
    if process.returncode:
        raise BadInput(f"{workflow} did not end well: {said[-500:]}")
    records = list(journal.read(run / "journal.jsonl"))
    marks = [(name, _first(records, kind)) for name, kind in BEFORE.items()]
    last = max(record.t for record in records if isinstance(record, Published))
    left = max(record.t for record in records if isinstance(record, Left))
    end = next(record.t for record in records if isinstance(record, End))
    marks += [
        ("simulating", last),
        ("goodbye", max(last, left)),
        ("last learning, Parsl's end", end),
        ("report", ended),
    ]
    phases, before = {}, began
    for name, until in marks:
        phases[name] = {"wall_s": round(until - before, 2), "cpu_s": round(used.by(until) - used.by(before), 2)}
        before = until
    return phases


def _first(records: list[Record], kind: Any) -> float:
    return float(next(record.t for record in records if isinstance(record, kind)))


class _Used:
    """Processor seconds of a process and all that it starts, as they grow; looked at in a thread."""

    def __init__(self, pid: int, run: Path) -> None:
        self._process, self._run = psutil.Process(pid), run
        self._seconds: dict[tuple[int, float], float] = {}
        self._looks = [(0.0, 0.0)]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def by(self, moment: float) -> float:
        return max(seconds for when, seconds in self._looks if when <= moment)

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(LOOK_S):
            for each in [self._process, *orphans.of_run(self._run)]:
                with contextlib.suppress(psutil.Error):
                    self._seconds[each.pid, each.create_time()] = sum(each.cpu_times()[:2])
            self._looks.append((time.time(), sum(self._seconds.values())))
