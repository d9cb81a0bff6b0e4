"""Contact maps -> latent coordinates: a convolutional variational autoencoder after DeepDriveMD and DeepEx.

Axes: B batch, C channels, H and W residues (padded), R residues, Z latent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models import device
from steersman.models.errors import at_least
from steersman.models.fitting.fit import Record, evaluate, fit, seeded
from steersman.models.fitting.input import RowSource
from steersman.models.fitting.reservoir import Reservoir
from steersman.models.fitting.schedule import CONSTANT, Schedule
from steersman.models.model import Model
from steersman.models.networks.contact_data import checked_maps

# With the full KL term two of three latent dimensions collapse (spread below 0.1) in the first 20 epochs on a few
# thousand maps of 10 residues: there are only some 20 nats in such a map. With a tenth of it they stay apart.
BETA = 0.1

Report = Callable[[Record], object]


class CVAE(Model):
    """A latent space of contact maps: three 3x3 convolutions, a dense layer, a normal latent space, and the way back.

    Args:
        size: residues R of the (R, R) maps.
        latent: dimensions Z of the latent space.
        channels: of every convolution.
        hidden: width of the dense layer.
        strides: of the three convolutions; maps are padded to a multiple of their product.
        beta: weight of the KL term.
    Raises: BadValue: one of these numbers is below 1.
    Source: Bhowmik et al. (2018), Deep clustering of protein folding simulations; Lee et al. (2019), DeepDriveMD,
        arXiv 1909.07817; DeepEx's size is `CVAE.deepex()`.
    """

    def __init__(
        self,
        size: int,
        latent: int = 3,
        channels: int = 32,
        hidden: int = 128,
        strides: Sequence[int] = (2, 2, 1),
        beta: float = BETA,
    ) -> None:
        super().__init__(size=size, latent=latent, channels=channels, hidden=hidden, strides=list(strides), beta=beta)
        at_least(1, size=size, latent=latent, channels=channels, hidden=hidden)
        self.size, self.beta = size, beta
        self.padding = -size % prod(strides)
        side = (size + self.padding) // prod(strides)
        self.encoder = _encoder(channels, strides, hidden, side)
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = _decoder(channels, strides, hidden, side, latent)
        self.to(torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]  # docs/training.md

    @classmethod
    def deepex(cls, size: int = 28) -> Self:
        """Build the paper's network: 128 channels, no stride, 26.3 million parameters at 28 residues. For GPUs."""
        return cls(size, latent=3, channels=128, hidden=128, strides=(1, 1, 1), beta=1.0)

    @classmethod
    def fit(
        cls,
        contacts: np.ndarray | RowSource,
        *,
        latent: int = 3,
        init: CVAE | None = None,
        epochs: int = 20,
        batch: int = 128,
        lr: float = 2e-3,
        channels: int = 32,
        beta: float = BETA,
        seed: int = 0,
        optimizer: str = "adam",
        schedule: Schedule = CONSTANT,
        precision: str = "fp32",
        compiled: str = "no",
        strategy: str | None = None,
        checkpoint: str | Path | None = None,
        reservoir: Reservoir | None = None,
        report: Report | None = None,
    ) -> Self:
        """Fit a network to contact maps; on a GPU where there is one.

        Args:
            contacts: (n, R, R) bool, uint8 or float in 0..1; bool and uint8 stay packed and are cast per batch. Also
                what `taken(window, "contacts", check=checked_maps)` gives, for windows larger than the memory.
            latent: dimensions of the latent space.
            init: a fitted network to go on from, left as it is; when its architecture differs the fit begins anew.
            epochs, batch, lr, optimizer, schedule, precision, compiled, strategy, checkpoint, reservoir: of the
                training loop, see `steersman.models.fitting.fit.fit`.
            channels, beta: of the network.
            seed: of the first weights, the shuffling and the latent noise.
            report: called with each epoch's record.
        Returns: a new network in eval mode. Its `history` has per epoch, in nats per map, `loss` = `reconstruction` +
            beta `kl`, and `seconds`; its card says under "warm_start" whether `init` was used.
        Raises:
            BadValue: no maps, NaN, or no square maps.
            TrainingDiverged: the loss is no longer finite.
        """
        data = checked_maps(contacts) if isinstance(contacts, np.ndarray) else contacts
        with seeded(seed):
            model = cls(data.shape[-1], latent=latent, channels=channels, beta=beta)
        model.warm_start(init)
        model.to(device.best())
        return fit(
            model, data, elbo, epochs=epochs, batch=batch, lr=lr, seed=seed, optimizer=optimizer, schedule=schedule,
            precision=precision, compiled=compiled, strategy=strategy, checkpoint=checkpoint, reservoir=reservoir,
            report=report,
        )  # fmt: skip

    def forward(self, maps_BRR: Tensor) -> tuple[Tensor, Tensor]:
        """Give mean and log variance of the latent distribution, each (B, Z), of (B, R, R) float maps."""
        padded_B1HW = functional.pad(maps_BRR, (0, self.padding, 0, self.padding)).unsqueeze(1)
        hidden_BD = self.encoder(padded_B1HW)
        return self.mean(hidden_BD), self.log_variance(hidden_BD)

    def decode(self, z_BZ: Tensor) -> Tensor:
        """Give the logits (B, R, R) of the maps that latent points (B, Z) stand for."""
        logits: Tensor = self.decoder(z_BZ)
        return logits[:, 0, : self.size, : self.size]

    @torch.no_grad()
    def encode(self, contacts: np.ndarray, batch: int = 4096) -> tuple[np.ndarray, np.ndarray]:
        """Place contact maps in the latent space.

        Args:
            contacts: (n, R, R) bool, uint8 or float in 0..1.
            batch: maps at a time.
        Returns: z (n, Z) float32, the mean of each map's latent distribution; error (n,) float32, the mean binary
            cross-entropy per pixel, in nats, of the map rebuilt from z: large for what the network has never seen.
        Raises: BadValue: no maps, NaN, or maps of another size.
        """
        packed = checked_maps(contacts, self.size)
        parts = [self._encode(part.to(self.device)) for part in torch.split(packed, batch)]
        z, error = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
        return z, error

    def evaluate(self, contacts: np.ndarray, batch: int = 4096) -> Record:
        """Measure loss, reconstruction and kl, nats per map, on maps that were held out; no noise is drawn.

        Raises: BadValue: no maps, NaN, or maps of another size.
        """
        return evaluate(self, checked_maps(contacts, self.size), elbo, batch=batch)

    def latent_spread(self, contacts: np.ndarray) -> np.ndarray:
        """Measure how far the maps lie apart in each latent dimension.

        Returns: (Z,) float32, standard deviation; a dimension near 0 (below 0.1) has collapsed and says nothing.
        Raises: BadValue: no maps, NaN, or maps of another size.
        """
        return np.asarray(self.encode(contacts)[0].std(axis=0))

    def _encode(self, packed_BRR: Tensor) -> tuple[Tensor, Tensor]:
        maps_BRR = packed_BRR.float()
        z_BZ, _ = self(maps_BRR)
        return z_BZ, cross_entropy(self.decode(z_BZ), maps_BRR) / self.size**2


def elbo(model: CVAE, packed_BRR: Tensor) -> dict[str, Tensor]:
    """Evaluate the negative evidence lower bound, nats per map, as means over the batch.

    Source: Kingma and Welling (2014), eq. 10; beta after Higgins et al. (2017).
    """
    maps_BRR = packed_BRR.float()
    mean_BZ, log_variance_BZ = model(maps_BRR)
    noise_BZ = torch.randn_like(mean_BZ) if model.training else torch.zeros_like(mean_BZ)
    logits_BRR = model.decode(mean_BZ + noise_BZ * torch.exp(0.5 * log_variance_BZ))
    reconstruction = cross_entropy(logits_BRR, maps_BRR).mean()
    mean_BZ, log_variance_BZ = mean_BZ.float(), log_variance_BZ.float()  # a sum of small differences, not for bf16
    kl = 0.5 * (mean_BZ**2 + log_variance_BZ.exp() - 1 - log_variance_BZ).sum(dim=1).mean()
    return {"loss": reconstruction + model.beta * kl, "reconstruction": reconstruction, "kl": kl}


def cross_entropy(logits_BRR: Tensor, maps_BRR: Tensor) -> Tensor:
    """Sum the binary cross-entropy over the pixels of each map. Returns: (B,) float32, nats."""
    pixels_BRR = functional.binary_cross_entropy_with_logits(logits_BRR.float(), maps_BRR, reduction="none")
    return pixels_BRR.sum(dim=(1, 2))


def _encoder(channels: int, strides: Sequence[int], hidden: int, side: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, stride in zip((1, channels, channels), strides, strict=True):
        layers += [nn.Conv2d(inputs, channels, 3, stride, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side**2, hidden), nn.ReLU())


def _decoder(channels: int, strides: Sequence[int], hidden: int, side: int, latent: int) -> nn.Sequential:
    """Mirror the encoder; its last dense layer needs no bias, since a convolution with one follows."""
    layers: list[nn.Module] = [
        *(nn.Linear(latent, hidden), nn.ReLU()),
        *(nn.Linear(hidden, channels * side**2, bias=False), nn.Unflatten(1, (channels, side, side)), nn.ReLU()),
    ]
    for outputs, stride in zip((channels, channels, 1), reversed(strides), strict=True):
        layers += [nn.ConvTranspose2d(channels, outputs, 3, stride, padding=1, output_padding=stride - 1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
