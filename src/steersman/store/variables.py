"""What a stored variable means: its dimensions, unit and name, as xarray and CF show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SINCE = "first_row"  # attribute of a variable that came late: rows of others before it

CONVENTIONS = "CF-1.11"  # that units and coordinates follow


@dataclass(frozen=True)
class Variable:
    """Meaning of one per-frame variable, or of a dimension of others, such as the latitudes of a field.

    Args:
        dims: names of its dimensions after `frame`, e.g. ("atom", "xyz").
        units: UDUNITS text, e.g. "nm", "ps"; "1" when dimensionless.
        long_name: what a figure's axis says.
        points: of a dimension: its size -> where its points lie, (size,). They are stored beside the variables, once,
            and xarray shows them as coordinates.
        missing: a value may be NaN. A frame with one is stored; no policy, label rule, metric or gate sees it.
    """

    dims: tuple[str, ...] = ()
    units: str = "1"
    long_name: str = ""
    points: Callable[[int], np.ndarray] | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.dims, str) or not all(isinstance(each, str) for each in self.dims):
            raise TypeError(f'Variable({self.dims!r:.60}): give the names of its dimensions, such as ("atom", "xyz")')
        if self.points is not None and not callable(self.points):
            raise TypeError(f"Variable(points={self.points!r:.60}): give a function of the size, such as np.arange")
