"""A user's metric -> a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.steering import Scores
from steersman.system.calls import called
from steersman.system.errors import BadInput


def measured(metric: Callable[[Scores], Any], scores: Scores) -> float:
    """What a metric says of scores; it may be infinite or no number. Raises: BadInput: it is none."""
    value = called(metric, scores)
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        shape = getattr(value, "shape", ())
        returned = f"an array of shape {tuple(shape)}" if shape else f"{value!r:.60}"
        raise BadInput(f"a metric returns one number, and it returned {returned}") from None
