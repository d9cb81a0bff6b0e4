"""A watched run whose frames are labelled -> how many labels there are, how wrong the model was, what bounds that."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.dashboard.live.watched import Watched
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
        "doubt": _doubt(watched, [labels.asked[n].doubt for n, _ in judged]),
        "bound": labels.bound if np.isfinite(labels.bound) else None,
        "covered": [str(each) for each in covered if len(each.held)],
    }  # fmt: skip


def _hours(watched: Watched, moments: np.ndarray) -> list[float]:
    return (watched.clock.elapsed(np.sort(moments)) / 3600).tolist() if len(moments) else []


def _doubt(watched: Watched, values: list[float | None]) -> dict[str, Any] | None:
    """What the rule looked at when it asked, beside the error of the same model; None of another rule."""
    loaded = watched.workflow()
    rule = watched.history.steering(loaded[0]).label if loaded else None
    if not isinstance(rule, Doubtful) or not any(each is not None for each in values):
        return None
    return {"name": rule.score, "above": rule.above, "values": values}
