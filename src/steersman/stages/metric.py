"""A user's metric -> a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.steering import Scores
from steersman.system.calls import called
from steersman.system.errors import BadInput


def measured(metric: Callable[[Scores], Any], scores: Scores) -> float:
    """What a metric says of scores; it may be infinite or no number. Raises: BadInput: it is none."""
    made = called(metric, scores)
    try:
        if isinstance(made, str | bytes):
            raise TypeError
        return float(made)
    except (TypeError, ValueError):
        shape = getattr(made, "shape", ())
        returned = f"an array of shape {tuple(shape)}" if shape else f"{made!r:.60}"
        raise BadInput(f"a metric returns one number, and it returned {returned}") from None
