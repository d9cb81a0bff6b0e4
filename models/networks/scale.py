"""Numbers -> how much they vary: what a network takes its inputs relative to."""

from __future__ import annotations

import numpy as np

ROUNDING = 4  # units in the last place by which a number that never changes may differ, computed twice


def spread(samples: np.ndarray, axis: int | tuple[int, ...] = 0, size: np.ndarray | float | None = None) -> np.ndarray:
    """Standard deviations along axes, (...) float64; exactly 0 of what never changes, but for its last digits.

    Args:
        samples: numbers or booleans.
        size: (...) of the numbers that these come from, where they are differences; None: their own.
    """
    kind = samples.dtype if samples.dtype.kind == "f" else np.dtype(np.float64)
    low, high = samples.min(axis), samples.max(axis)
    largest = np.maximum(np.abs(low), np.abs(high)) if size is None else size
    changes = high.astype(np.float64) - low > ROUNDING * np.finfo(kind).eps * np.asarray(largest, np.float64)
    return np.where(changes, samples.std(axis, dtype=np.float64), 0.0)
