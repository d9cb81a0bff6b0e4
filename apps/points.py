"""A point that a policy draws, numbers from 0 to 1 -> the parameters of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steersman.system.errors import BadValue


def checked(point: Sequence[float] | np.ndarray, dimensions: int) -> list[float]:
    """Give the numbers of a point. Raises: BadValue: there are more or fewer, or one lies outside 0 to 1."""
    if len(point) != dimensions:
        raise BadValue("the number of parameters", len(point), f"give {dimensions}")
    for value in point:
        if not 0 <= value <= 1:
            raise BadValue("a parameter of the draw", value, "give 0 to 1")
    return [float(value) for value in point]


def scaled(point: Sequence[float], ranges: Sequence[tuple[float, float]]) -> list[float]:
    """Give each number of a checked point in its range: 0 is the low end, 1 the high one."""
    return [low + value * (high - low) for value, (low, high) in zip(point, ranges, strict=True)]
