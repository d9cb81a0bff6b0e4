"""A watched run whose frames are labelled -> how many labels there are, how wrong the model was, what bounds that."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.dashboard.live.watched import Watched
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.modes.labels import Labels
from steersman.steering import Doubtful


def answer(watched: Watched) -> dict[str, Any]:
    """Nothing of a run without labels; errors where the workflow measures them."""
    labels = watched.history.state.mode(Labels)
    if not labels.asked:
        return {}
    asked = np.array([each.t for each in labels.asked.values()])
    come = np.array([each.t for each in labels.good])
    judged = [(n, each.error) for n, each in labels.answers.items() if each.error is not None]
    covered = labels.coverage
    return {
        "asked": _hours(watched, asked), "answered": _hours(watched, come),
        "said": ", ".join(f"{n:,} {how}" for how, n in labels.counts["labels"].items()),
        "labels": [n for n, _ in judged], "errors": [error for _, error in judged],
        "drawn": [labels.asked[n].drawn for n, _ in judged],
        "doubt": _doubt(watched, [n for n, _ in judged]),
        "bound": labels.bound if np.isfinite(labels.bound) else None,
        "covered": [str(each) for each in covered if len(each.held)],
    }  # fmt: skip


def _hours(watched: Watched, moments: np.ndarray) -> list[float]:
    return (watched.clock.elapsed(np.sort(moments)) / 3600).tolist() if len(moments) else []


def _doubt(watched: Watched, numbers: list[int]) -> dict[str, Any] | None:
    """What the rule looks at in frames that have labels, by the newest scores; None of another rule."""
    loaded, labels = watched.workflow(), watched.history.state.mode(Labels)
    rule = watched.history.steering(loaded[0]).label if loaded else None
    scores = watched.history.scores
    if not isinstance(rule, Doubtful) or rule.score not in scores.values or not numbers:
        return None
    frames = np.array([labels.asked[number].frame[:2] for number in numbers], np.int64)
    at = places(frame_key(scores.walker.astype(np.int64), scores.row), frame_key(*frames.T))
    values = np.where(at >= 0, scores.column(rule.score)[at], np.nan)
    return {"name": rule.score, "above": rule.above, "values": [float(v) if np.isfinite(v) else None for v in values]}
