"""A variational autoencoder of dense layers: what a CVAE learns of maps, of vectors, in a form that can be biased.

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
from steersman.models.networks.scale import of_alike, spread
from steersman.models.networks.tica import rows
from steersman.system.errors import BadValue

WEIGHT = 1e-2  # of the divergence from a normal distribution


class Autoencoder(Model):
    """A latent space of vectors: `latent` coordinates of one hidden layer of tanh, from which they are rebuilt.

    Args:
        size: numbers of a row, F.
        latent: Z.
        hidden: units H.
    Source: Kingma and Welling (2014), Auto-encoding variational Bayes.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, latent: int, hidden: int = 24) -> None:
        super().__init__(size=size, latent=latent, hidden=hidden)
        at_least(1, size=size, latent=latent, hidden=hidden)
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))  # may be large beside what varies
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))
        self.inner, self.place, self.spread = (
            nn.Linear(size, hidden),
            nn.Linear(hidden, latent),
            nn.Linear(hidden, latent),
        )
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, size))

    @classmethod
    def fit(
        cls,
        data: np.ndarray,
        *,
        latent: int = 2,
        hidden: int = 24,
        epochs: int = 30,
        batch: int = 512,
        lr: float = 3e-3,
        seed: int = 0,
        init: Model | None = None,
    ) -> Self:
        """Fit to data (n, ...), each row flattened, all of one scale.

        Args:
            init: a fitted one to go on from, left as it is; used where mean and spread of the data are about the same.
        Raises: BadValue: none, or values that are not finite, or that never change.
        """
        x = rows(data)
        if len(x) == 0 or not (size := float(spread(x).mean())):
            raise BadValue("shape", np.shape(data), "the values never change")
        with seeded(seed):
            model = cls(x.shape[1], latent, hidden)
        model.mean.copy_(torch.from_numpy(x.mean(axis=0)))
        model.scale.fill_(size)
        model.warm_start(of_alike(model, init, "scale"))
        x = relative(model.mean, model.scale, x)
        model.to(device.best())
        fit(model, x, _loss, epochs=epochs, batch=min(batch, len(x)), lr=lr, seed=seed)
        return model.to("cpu").eval()

    def dense_layers(self) -> Layers:
        """As of `Model`."""
        return dense(self.mean, self.scale, self.inner, self.place)

    @torch.no_grad()
    def encode(self, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of data (n, ...), and how well they rebuild it.

        Returns: (n, Z) float64, and each row's mean squared error, (n,) float64.
        Raises: BadValue: rows of another size, or values that are not finite.
        """
        x = rows(data, self.config["size"])
        z = through(self.dense_layers(), x)
        rebuilt = self.decoder(torch.from_numpy(z).float()).double() * self.scale + self.mean
        return z, np.asarray(((rebuilt.numpy() - x) ** 2).mean(axis=1))


def _loss(model: Autoencoder, batch: Tensor) -> dict[str, Tensor]:
    hidden = torch.tanh(model.inner(batch))
    place, spread = model.place(hidden), model.spread(hidden)
    rebuilt = model.decoder(place + torch.exp(0.5 * spread) * torch.randn_like(spread))
    error = ((rebuilt - batch) ** 2).sum(dim=1).mean()
    divergence = 0.5 * (place**2 + spread.exp() - 1 - spread).sum(dim=1).mean()
    return {"loss": error + WEIGHT * divergence, "error": error, "divergence": divergence}
