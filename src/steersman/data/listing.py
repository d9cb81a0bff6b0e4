"""A folder of runs -> one line for each: what it is, how far it came, how large it is."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from steersman.data.history import History
from steersman.journal.errors import BadDirectory
from steersman.journal.run_directory import RunDirectory, open_run, runs_in

NO_PERMISSION = "you have no permission"


@dataclass(frozen=True)
class Listed:
    """A run at a glance.

    Args:
        state: how it ended; running, paused, or "not driven" where it can be resumed; or why it cannot be read.
        frames: None where the run cannot be read.
        metric, value: the first metric of the workflow and its newest value; None before there is one.
        age_s: seconds since its last record.
        bytes: of all its files.
    """

    name: str
    workflow: str
    state: str
    frames: int | None
    metric: str | None
    value: float | None
    age_s: float
    bytes: int


def listed(folder: Path) -> list[Listed]:
    """The runs that lie in a folder, the newest last, with folders that this user may not look into."""
    closed = (each for each in folder.iterdir() if each.is_dir() and not os.access(each, os.R_OK | os.X_OK))
    runs = [*map(_listed, runs_in(folder)), *(_unreadable(RunDirectory(each), NO_PERMISSION) for each in closed)]
    return sorted(runs, key=lambda each: -each.age_s)


def _listed(directory: RunDirectory) -> Listed:
    path = directory.path
    try:
        seen = History(open_run(path)).overview()
    except BadDirectory as error:
        return _unreadable(directory, error.problem)
    except Exception as error:  # of a newer version, or damaged: the others are listed all the same
        return _unreadable(directory, str(error))
    if not seen.now:  # it begins, or has lost everything
        return _unreadable(directory, "its journal is empty")
    metric = next(iter(seen.metrics), None)
    value = seen.metrics[metric] if metric else None
    age_s, word = max(0.0, time.time() - seen.now), seen.outcome + (", damaged" if seen.flaws else "")
    return Listed(seen.name, seen.workflow, word, seen.frames, metric, value, age_s, size(path))


def _unreadable(directory: RunDirectory, problem: str) -> Listed:
    path = directory.path
    age_s = time.time() - (path if problem == NO_PERMISSION else directory.journal).stat().st_mtime
    return Listed(path.name, "?", f"cannot be read: {problem:.120}", None, None, None, age_s, size(path))


def size(path: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # of a run that goes on
                continue
    return total
