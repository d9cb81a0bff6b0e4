"""A run -> plain values, for `--json`."""

from __future__ import annotations

from typing import Any

from steersman.data import facts
from steersman.engine import files
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State


def summary(directory: RunDirectory, state: State) -> dict[str, Any]:
    """A run in plain values, and how many files it has."""
    return {**facts.summary(state, directory.path), "files": files.count(directory.path)}
