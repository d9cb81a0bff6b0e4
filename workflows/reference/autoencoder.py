"""A variational autoencoder of dense layers: what a CVAE learns, in a form that a simulation can be biased along.

Axes: B batch, F inputs, H hidden units, Z coordinates.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models import Model
from steersman.models.fitting.fit import fit, seeded
from steersman.models.networks.tica import rows

HIDDEN = 24
WEIGHT = 1e-2  # of the divergence from a normal distribution


class Autoencoder(Model):
    """`latent` coordinates from which rows of `size` numbers are rebuilt; they are about of mean 0 and variance 1."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, latent: int) -> None:
        super().__init__(size=size, latent=latent)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(()))
        self.inner, self.place, self.spread = (
            nn.Linear(size, HIDDEN),
            nn.Linear(HIDDEN, latent),
            nn.Linear(HIDDEN, latent),
        )
        self.decoder = nn.Sequential(nn.Linear(latent, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, size))

    @classmethod
    def fit(cls, data: np.ndarray, *, latent: int, init: Model | None = None, seed: int = 0) -> Autoencoder:
        """Fit to data (n, ...), each row flattened, all of one scale; go on from `init`."""
        x = rows(data)
        with seeded(seed):
            model = cls(x.shape[1], latent)
        if not model.warm_start(init):
            model.mean.copy_(torch.from_numpy(x.mean(axis=0)))
            model.scale.fill_(float(x.std(axis=0).mean()))
        return fit(model, x.astype(np.float32), _loss, epochs=30, batch=512, lr=3e-3, seed=seed)

    def dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """As of `Model`."""
        inner, place = (
            (layer.weight.detach().numpy().astype(float), layer.bias.detach().numpy().astype(float))
            for layer in (self.inner, self.place)
        )
        weights = inner[0] / float(self.scale)
        return [(weights, inner[1] - weights @ self.mean.numpy().astype(float)), place]

    def encode(self, data: np.ndarray) -> np.ndarray:
        """Coordinates of data (n, ...). Returns: (n, Z) float64."""
        (weights, offsets), (outer, shift) = self.dense_layers()
        return np.asarray(np.tanh(rows(data, self.config["size"]) @ weights.T + offsets) @ outer.T + shift)


def _loss(model: Autoencoder, batch: Tensor) -> dict[str, Tensor]:
    x = (batch - model.mean) / model.scale
    h = torch.tanh(model.inner(x))
    place, spread = model.place(h), model.spread(h)
    rebuilt = model.decoder(place + torch.exp(0.5 * spread) * torch.randn_like(spread))
    error = ((rebuilt - x) ** 2).sum(dim=1).mean()
    divergence = 0.5 * (place**2 + spread.exp() - 1 - spread).sum(dim=1).mean()
    return {"loss": error + WEIGHT * divergence, "error": error, "divergence": divergence}
