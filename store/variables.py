"""What a stored variable means: its dimensions, unit and name, as xarray and CF show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """Meaning of one per-frame variable.

    Args:
        dims: names of its dimensions after `frame`, e.g. ("atom", "xyz").
        units: UDUNITS text, e.g. "nm", "ps"; "1" when dimensionless.
        long_name: what a figure's axis says.
    """

    dims: tuple[str, ...] = ()
    units: str = "1"
    long_name: str = ""
