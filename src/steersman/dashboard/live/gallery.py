"""Run directories -> the runs of a server by key, and a line about each for the page that lists them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.journal.lock import driven
from steersman.journal.run_directory import RunDirectory, is_text, open_run, runs_in
from steersman.system.errors import EngineError

SCAN_S = 3.0  # between two looks into the folder
UNWATCHED_S = 15.0


class Gallery:
    """The runs that are served.

    Args:
        runs: directories of runs.
        folder: serve every run in it, too, also those that begin later.
        baseline: a run of them whose curves stand behind the others'.
        trusted: see Watched.
    Raises: BadDirectory: one of `runs` is no run.
    """

    def __init__(
        self,
        runs: Iterable[Path],
        folder: Path | None = None,
        *,
        baseline: Path | None = None,
        trusted: bool | None = None,
    ) -> None:
        self.folder, self._trusted = folder, trusted
        self._runs: dict[str, Watched] = {}
        self._lines: dict[str, tuple[tuple[int, int, bool], dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self.looked = time.monotonic()  # when somebody last asked for anything
        self._listed = -1e9
        self._thread: threading.Thread | None = None
        for run in runs:
            self._add(open_run(run))
        self.first = next(iter(self._runs), "")
        self.baseline = self._add(open_run(baseline)) if baseline else ""
        self._scan()

    @property
    def keys(self) -> list[str]:
        """Of all runs, also those that have begun since."""
        self._scan()
        return list(self._runs)

    def get(self, key: str) -> Watched | None:
        self.looked = time.monotonic()
        if key not in self._runs:  # it may have begun since somebody looked at the list
            self._scan()
        return self._runs.get(key)

    @property
    def goes_on(self) -> bool:
        """Whether somebody drives one of the runs."""
        return any(driven(run.directory.path) for run in list(self._runs.values()))

    def begin(self) -> None:
        """Read the only run before somebody asks: a large one takes seconds."""
        if self.single:
            self._runs[self.single].look()

    @property
    def single(self) -> str:
        """The only run to show, or ""."""
        shown = [key for key in self._runs if key != self.baseline]
        return shown[0] if len(shown) == 1 and self.folder is None else ""

    def lines(self) -> list[dict[str, Any]]:
        """A line about each run, as far as they have been read."""
        with self._lock:
            self._listed = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="reader of the list", daemon=True)
                self._thread.start()
            return [
                {"key": key, "name": run.directory.path.name, **self._lines.get(key, (None, {}))[1]}
                for key, run in self._runs.items()
            ]

    def _add(self, directory: RunDirectory) -> str:
        path = directory.path.resolve()
        for key, run in self._runs.items():
            if run.directory.path.resolve() == path:
                return key
        name = path.name
        key = next(k for i in range(len(self._runs) + 1) if (k := f"{name}~{i}" if i else name) not in self._runs)
        self._runs[key] = Watched(directory, key, keep=self.folder is None, trusted=self._trusted)
        return key

    def _scan(self) -> None:
        if self.folder is not None:
            for directory in filter(lambda directory: is_text(directory.path), runs_in(self.folder)):
                self._add(directory)

    def _is_listed(self) -> bool:
        """Whether somebody looked at the list in the last seconds; else what goes on is read again for the next one."""
        with self._lock:
            if time.monotonic() - self._listed < UNWATCHED_S:
                return True
            self._thread = None
            self._lines = {key: seen for key, seen in self._lines.items() if not seen[0][-1]}
            return False

    def _go_on(self) -> None:
        while self._is_listed():
            self._scan()
            for key, run in list(self._runs.items()):
                with contextlib.suppress(OSError):
                    status = os.stat(run.directory.journal)
                    seen = status.st_ino, status.st_size, driven(run.directory.path)
                    if key not in self._lines or self._lines[key][0] != seen:
                        self._lines[key] = seen, line(run.directory)
            time.sleep(SCAN_S)


def line(directory: RunDirectory) -> dict[str, Any]:
    """What the list says of a run; its history is not kept."""
    try:
        history = History(directory)
        seen, params = history.overview(), history.params_in_words
    except (EngineError, OSError, ValueError, KeyError, TypeError) as error:
        return {"workflow": "", "status": "cannot be read", "trouble": f"{error!s:.300}", "params": {}}
    return {
        "workflow": seen.workflow,
        "status": seen.outcome,
        "frames": seen.frames,
        "simulated": history.clock.simulated_scale.text(seen.simulated),
        "hours": seen.hours,
        "began": seen.began,
        "segments": sum(seen.segments.values()),
        "failed": seen.segments.get("failed", 0),
        "models": sum(bool(model.accepted) for model in seen.models),
        "metrics": seen.metrics,
        "params": params,
    }
