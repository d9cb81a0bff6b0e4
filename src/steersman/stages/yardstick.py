"""Stored frames -> what a run is worth, whatever its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steersman.stages.errors import BadYardstick
from steersman.store import Window
from steersman.system.calls import called

TAKES = ("distinct", "highest", "lowest", "mean")


@dataclass(frozen=True)
class Yardstick:
    """A measure of a run by its stored frames alone, see `Workflow.yardstick`."""

    function: Callable[[Any, Mapping[str, np.ndarray]], np.ndarray]
    take: str = "distinct"
    less: bool = False
    levels: tuple[float, ...] = ()

    def rows(self, name: str, params: Any, frames: Window) -> np.ndarray:
        """(n, ...) what it gives for n frames. Raises: BadYardstick: not one row of numbers for each."""
        given = called(self.function, params, frames)
        value = np.asarray(given)
        if value.ndim == 0 or len(value) != frames.rows:
            raise BadYardstick(name, f"shape {value.shape}; return one row for each of {frames.rows} frames")
        if value.dtype.kind not in "biuf":
            raise BadYardstick(name, f"values of dtype {value.dtype}; return numbers or booleans")
        if np.ma.is_masked(given) or not np.isfinite(value).all():
            raise BadYardstick(name, "values that are not finite, or masked; return a number for every frame")
        return value

    def along(self, name: str, params: Any, frames: Window) -> np.ndarray:
        """The same, as floats where they are amounts: whole numbers whose highest, lowest or mean is taken."""
        value = self.rows(name, params, frames)
        return value.astype(float) if self.take != "distinct" and value.dtype.kind in "iu" else value
