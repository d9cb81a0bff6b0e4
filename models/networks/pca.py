"""Principal components as a Model: the cheapest latent space, and a baseline for the others."""

from __future__ import annotations

from math import prod
from typing import Self

import numpy as np
import torch

from steersman.models.errors import at_least, real
from steersman.models.model import Model
from steersman.system.errors import BadValue

ROWS = 4096  # in float64 at a time


class PCA(Model):
    """What varies most: `latent` directions of vectors of `size` numbers."""

    mean: torch.Tensor
    components: torch.Tensor

    def __init__(self, size: int, latent: int) -> None:
        super().__init__(size=size, latent=latent)
        at_least(1, size=size, latent=latent)
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))  # may be large beside what varies
        self.register_buffer("components", torch.zeros(latent, size, dtype=torch.float32))

    @classmethod
    def fit(cls, data: np.ndarray, *, latent: int = 2) -> Self:
        """Fit to data (n, ...), each row flattened; `latent` is at most the rows, and the numbers in one.

        Raises: BadValue: fewer than two rows, or values that are not finite, or no latent dimension.
        """
        x = _rows(data)
        if len(x) < 2:
            raise BadValue("shape", np.shape(data), "principal components need at least two rows")
        model = cls(x.shape[1], min(latent, *x.shape))
        mean = x.mean(axis=0, dtype=np.float64)
        _, _, directions = np.linalg.svd(_centred(x, mean), full_matrices=False)
        directions = directions[: model.config["latent"]]
        signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
        model.mean.copy_(torch.from_numpy(mean))
        model.components.copy_(torch.from_numpy(directions * signs[:, None]))
        return model.eval()

    def dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """As of `Model`."""
        components, mean = (each.numpy().astype(float) for each in (self.components, self.mean))
        return [(components, -components @ mean)]

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Rows (n, size) float64 from their coordinates (n, latent)."""
        return np.asarray(z @ self.components.numpy() + self.mean.numpy())

    def encode(self, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Project data (n, ...).

        Returns: (n, latent) float32, and each row's mean squared error, (n,) float64.
        Raises: BadValue: rows of another size, or values that are not finite.
        """
        x = _rows(data)
        if x.shape[1] != len(self.mean):
            raise BadValue("shape", np.shape(data), f"the model was built for rows of {len(self.mean)} numbers")
        x = _centred(x, self.mean.numpy())
        z = x @ self.components.numpy().T
        missed = x - z @ self.components.numpy()
        return z, np.einsum("ij,ij->i", missed, missed, dtype=np.float64) / x.shape[1]


def _rows(data: np.ndarray) -> np.ndarray:
    """Flatten (n, ...) to (n, numbers)."""
    shape = np.shape(data)
    x = np.asarray(real(data)).reshape(shape[0], prod(shape[1:]))
    if not np.isfinite(x).all():
        raise BadValue("shape", shape, "principal components need finite numbers")
    return x


def _centred(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n, numbers) float32 of what varies; its digits are lost if float32 comes before the difference."""
    centred = np.empty(x.shape, np.float32)
    for first in range(0, len(x), ROWS):
        centred[first : first + ROWS] = x[first : first + ROWS] - mean
    return centred
