"""A watched run -> what `steersman analyse` wrote of it: rows, a picture, problems and notes."""

from __future__ import annotations

import json
from typing import Any

from steersman.dashboard.live.watched import Watched


def answer(watched: Watched) -> dict[str, Any]:
    """Nothing where there is no analysis. What lies there may be somebody else's: it is text, and a picture."""
    directory = watched.directory
    if not directory.analysis.exists():
        return {}
    said = json.loads(directory.read(directory.analysis / "analysis.json"))
    now = watched.history.state.frames
    then = said.get("run_frames", [now])[0]
    old = [f"It is of {then:,} frames, and the run has {now:,}: analyse again."] if then != now else []
    return {
        "problems": [*old, *said["problems"]],
        "notes": said.get("notes", []),  # older files have none, nor how many frames there were
        **{key: said["report"][key] for key in ("rows", "caption")},
        "svg": directory.read(directory.analysis / "figure.svg").decode(),
    }
