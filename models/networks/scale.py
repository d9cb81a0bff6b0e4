"""Numbers -> how much they vary: what a network takes its inputs relative to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steersman.models.model import Model

OTHER = 2.0  # times the spread of the inputs of a fitted network, from where on they are others
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


def of_alike(model: Model, init: Model | None, scale: str) -> Model | None:
    """A model to begin from, unless its inputs had another `mean` or spread, which is the buffer `scale`, than those of
    this one: its hidden layer may know only extremes of others, from which a fit does not come back."""
    if init is None or not model.fits(init):
        return init
    (mean, spread), (mean_before, before) = (
        (each.get_buffer("mean").cpu(), each.get_buffer(scale).cpu()) for each in (model, init)
    )
    grown, shift = spread / before, (mean - mean_before).abs().mean() / before.max()
    return init if (grown <= OTHER).all() and (grown >= 1 / OTHER).all() and shift <= OTHER else None
