"""Rows that come one after another -> columns, at a few bytes each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


class Table:
    """A structured array that grows.

    Args:
        dtype: of a row, with its fields.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._rows = np.empty(256, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, at: int, row: tuple[Any, ...]) -> None:
        """Write a row; rows that were left out before it are zeros."""
        if at >= len(self._rows):
            more = np.zeros(max(at + 1 - len(self._rows), len(self._rows) // 2), self._rows.dtype)
            self._rows = np.concatenate([self._rows, more])
        if at > self._count:
            self._rows[self._count : at] = np.zeros((), self._rows.dtype)
        self._rows[at] = row
        self._count = max(self._count, at + 1)

    @property
    def columns(self) -> np.ndarray:
        """(n,) of the rows so far; a view."""
        return self._rows[: self._count]
