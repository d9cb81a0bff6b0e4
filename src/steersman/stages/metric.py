"""A user's metric -> a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.stages.errors import NoNumber
from steersman.steering import Scores
from steersman.system.calls import called


def measured(metric: Callable[[Scores], Any], scores: Scores) -> float:
    """What a metric says of scores; it may be infinite or no number. Raises: NoNumber."""
    made = called(metric, scores)
    try:
        if isinstance(made, str | bytes):
            raise TypeError
        return float(made)
    except (TypeError, ValueError):
        shape = getattr(made, "shape", ())
        raise NoNumber(f"an array of shape {tuple(shape)}" if shape else f"{made!r:.60}") from None
