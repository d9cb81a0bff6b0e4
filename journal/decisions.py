"""The decisions of a run, beside its journal: what was refused, and what choosing took."""

from __future__ import annotations

import json

from steersman.journal.run_directory import RunDirectory
from steersman.system import reading


def ranking_seconds(directory: RunDirectory) -> float:
    """How long policies ranked, in all; 0 of a run that did not record it."""
    if not directory.decisions.exists():
        return 0.0
    lines = reading.lines(directory.decisions, directory.path)
    return sum(float(json.loads(line).get("ranked_s", 0.0)) for line in lines)
