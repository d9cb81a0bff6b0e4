"""A watched run -> the starts from which most segments descend, and why each was chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.dashboard.live.watched import Watched

MOST_STARTS = 20


def answer(watched: Watched) -> dict[str, Any]:
    """Rows: segment, its descendants, the frame where it started ("" for the prepared start), policy, reason, model."""
    history, segments = watched.history, watched.table
    below = segments.descendants()
    rows = []
    for i in np.argsort(-below, kind="stable")[:MOST_STARTS]:
        if not below[i]:
            break
        start = history.start(int(segments.start[i]))
        parent = history.state.name_of(start.parent) if start.parent else ""
        rows.append([segments.name(i), int(below[i]), parent, start.policy, start.reason, start.model or None])
    return {"rows": rows}
