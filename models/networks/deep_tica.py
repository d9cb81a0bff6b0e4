"""A small network whose outputs change slowly: time-lagged independent components of what it makes of its inputs.

Axes: B batch, F inputs, H hidden units, Z coordinates.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models import device
from steersman.models.errors import at_least
from steersman.models.fitting.fit import fit, seeded
from steersman.models.model import Model
from steersman.models.networks.dense import Layers, dense, relative, through
from steersman.models.networks.scale import of_alike
from steersman.models.networks.tica import covariances, lagged, rows, slowest

NOISE = 0.15  # of the inputs' common spread, added in training: without it the network's slopes explode
REGULAR = 1e-4  # added to variances


class DeepTICA(Model):
    """What changes slowest: `latent` coordinates of one hidden layer of tanh, each of mean 0 and variance 1.

    Args:
        size: numbers of a row, F.
        latent: Z.
        hidden: units H. A bias along it costs a simulation a microsecond or so a step for each.
    Source: Bonati, Piccini and Parrinello (2021), Deep learning the slow modes for rare events sampling.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, latent: int, hidden: int = 12) -> None:
        super().__init__(size=size, latent=latent, hidden=hidden)
        at_least(1, size=size, latent=latent, hidden=hidden)
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))  # may be large beside what varies
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))
        self.inner, self.outer = nn.Linear(size, hidden), nn.Linear(hidden, latent)

    def forward(self, x_BF: Tensor) -> Tensor:
        """(B, Z) coordinates."""
        return self.of_relative(((x_BF - self.mean) / self.scale).float())

    def of_relative(self, x_BF: Tensor) -> Tensor:
        """(B, Z) coordinates of inputs less their mean, over their scale."""
        z: Tensor = self.outer(torch.tanh(self.inner(x_BF)))
        return z

    @classmethod
    def fit(
        cls,
        data: np.ndarray,
        pairs: np.ndarray,
        *,
        latent: int = 2,
        hidden: int = 12,
        weights: np.ndarray | None = None,
        epochs: int = 30,
        batch: int = 512,
        lr: float = 3e-3,
        seed: int = 0,
        init: Model | None = None,
    ) -> Self:
        """Fit to data (n, ...), each row flattened, all of one scale.

        Args:
            pairs, weights: as of `TICA.fit`.
            init: a fitted one to go on from, left as it is; used where mean and spread of the data are about the same.
        Returns: its card holds the `autocorrelation` of each coordinate at the lag.
        Raises: BadValue: no pairs, values that are not finite, or that never change.
        """
        x = rows(data)
        before, after, weight = lagged(x, pairs, weights)
        with seeded(seed):
            model = cls(x.shape[1], latent, hidden)
        model.mean.copy_(torch.from_numpy(weight @ before))
        model.scale.fill_(float(np.sqrt(weight @ ((before - weight @ before) ** 2).mean(axis=1))))
        model.warm_start(of_alike(model, init, "scale"))
        parts = *(relative(model.mean, model.scale, each) for each in (before, after)), weight[:, None] * len(weight)
        tensors = tuple(torch.from_numpy(part.astype(np.float32)) for part in parts)
        model.to(device.best())
        fit(model, tensors, _loss, epochs=epochs, batch=min(batch, len(weight)), lr=lr, seed=seed)
        model.to("cpu")
        model._turn(before, after, weight)
        return model.eval()

    @torch.no_grad()
    def _turn(self, before: np.ndarray, after: np.ndarray, weight: np.ndarray) -> None:
        """Let the outputs be uncorrelated, of unit variance, the slowest first: a linear map of the last layer."""
        mean, now, later = covariances(self.encode(before), self.encode(after), weight)
        directions, values = slowest(now, later, len(now), smallest=0.0)
        turn = torch.from_numpy(directions).float()
        self.outer.bias.copy_(turn @ (self.outer.bias - torch.from_numpy(mean).float()))
        self.outer.weight.copy_(turn @ self.outer.weight)
        self.card["autocorrelation"] = [round(float(value), 4) for value in values]

    def dense_layers(self) -> Layers:
        """As of `Model`."""
        return dense(self.mean, self.scale, self.inner, self.outer)

    def encode(self, data: np.ndarray) -> np.ndarray:
        """Coordinates of data (n, ...). Returns: (n, Z) float64. Raises: BadValue: rows of another size, or NaN."""
        return through(self.dense_layers(), rows(data, self.config["size"]))


def _loss(model: DeepTICA, before: Tensor, after: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Minus the sum of squared autocorrelations, of noisy inputs, (B, F) each with weights (B, 1)."""
    noise = NOISE if model.training else 0.0
    x, y = (model.of_relative(each + noise * torch.randn_like(each)) for each in (before, after))
    weight = weight / weight.sum()
    mean = 0.5 * (weight * (x + y)).sum(dim=0)
    x, y = x - mean, y - mean
    now = 0.5 * (x.T @ (weight * x) + y.T @ (weight * y))
    cross = x.T @ (weight * y)
    now = now + REGULAR * torch.eye(len(now), device=now.device)
    factor = torch.linalg.cholesky(now)  # eigh in a loss gives NaN as gradients
    half = torch.linalg.solve_triangular(factor, 0.5 * (cross + cross.T), upper=False)
    white = torch.linalg.solve_triangular(factor, half.T, upper=False)
    return {"loss": -(white**2).sum()}
