"""A run -> plain values, for `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steersman.data.overview import Overview
from steersman.engine import files


def summary(seen: Overview) -> dict[str, Any]:
    """A run in plain values, and how many files it has."""
    return {**seen.as_plain(), "files": files.count(Path(seen.path))}
