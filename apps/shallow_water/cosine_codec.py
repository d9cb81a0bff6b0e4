"""Fields <-> their slowest waves by the discrete cosine transform: fewer numbers, and an error that is known."""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn, idctn

from steersman.system.errors import BadValue


class CosineCodec:
    """Keeps the same `kept` of the rows x columns coefficients of every field, those of the slowest waves.

    Raises: BadValue: fewer than one, or more than there are.
    Source: Ahmed, Natarajan and Rao (1974), Discrete cosine transform.
    """

    def __init__(self, rows: int, columns: int, kept: int) -> None:
        if not 1 <= kept <= rows * columns:
            raise BadValue("kept", kept, f"give 1 to {rows * columns}, the numbers of a field of {rows} x {columns}")
        self.shape, self.kept = (rows, columns), kept
        down, along = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
        slowest = np.argsort((down**2 + along**2).ravel(), kind="stable")[:kept]
        self._where = np.unravel_index(slowest, self.shape)

    def encode(self, fields: np.ndarray) -> np.ndarray:
        """(..., rows, columns) -> (..., kept), float32."""
        waves = dctn(np.asarray(fields, np.float64), axes=(-2, -1), norm="ortho")
        return np.asarray(waves[..., self._where[0], self._where[1]], np.float32)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """(..., kept) -> (..., rows, columns), float32."""
        waves = np.zeros((*numbers.shape[:-1], *self.shape))
        waves[..., self._where[0], self._where[1]] = numbers
        return np.asarray(idctn(waves, axes=(-2, -1), norm="ortho"), np.float32)
