"""What a held_out stage gives -> one mapping for each draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.system.errors import BadInput


def rows_of(given: Any) -> list[dict[str, float | list[float]]]:
    """Raises: BadInput: it is no mapping of names to arrays with one row for each draw."""
    if not isinstance(given, Mapping) or not given:
        raise _bad_draws(type(given).__name__)
    columns = {name: np.asarray(values, np.float64) for name, values in given.items()}
    lengths = {name: len(values) if values.ndim else None for name, values in columns.items()}
    if (
        None in lengths.values()
        or len(set(lengths.values())) > 1
        or not all(np.isfinite(values).all() for values in columns.values())
    ):
        raise _bad_draws(f"columns of {lengths} rows, or numbers that are not finite")
    rows = {name: values.tolist() for name, values in columns.items()}
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def _bad_draws(returned: str) -> BadInput:
    return BadInput(f"@wf.held_out returned {returned}; it must return {{name: array with one row for each draw}}")
