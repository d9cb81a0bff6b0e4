"""Fields on the sphere -> the same fields some hours later: a U-Net that knows it is on a sphere.

Axes: B batch, C channels, H latitudes from the north, W longitudes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import UnusableData
from steersman.models.fit import Record, fit
from steersman.models.model import Model

GROUPS = 8  # of the normalization: a batch of few large fields has no statistics of its own


class SphericalUNet(Model):
    """Three levels of 3x3 convolutions below a pixel unshuffle; its output is scaled to the spread of the increments.

    Args:
        channels: C of the fields.
        latitudes: H, for the weights by area; a multiple of 8, W = 2 H.
        width: channels of the first level, a multiple of 8; doubled at each of the two below.
    Source: Ronneberger et al. (2015), U-Net, arXiv 1505.04597.
    """

    mean: Tensor
    spread: Tensor
    increment: Tensor
    area: Tensor

    def __init__(self, channels: int, latitudes: int, width: int = 32) -> None:
        super().__init__(channels=channels, latitudes=latitudes, width=width)
        for name in ("mean", "spread", "increment"):
            self.register_buffer(name, torch.ones(channels, 1, 1))
        weights = np.polynomial.legendre.leggauss(latitudes)[1]
        self.register_buffer("area", torch.tensor(weights / weights.mean(), dtype=torch.float32)[:, None])
        self.down1 = _level(4 * channels, width)
        self.down2 = _level(width, 2 * width)
        self.bottom = _level(2 * width, 4 * width)
        self.up2 = _level(6 * width, 2 * width)
        self.up1 = _level(3 * width, width)
        self.last = nn.Conv2d(width, 4 * channels, 1)
        nn.init.zeros_(self.last.weight)  # an untrained network is persistence
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, fields: Tensor) -> Tensor:
        """Fields (B, C, H, W) in their units, a step later."""
        x = functional.pixel_unshuffle((fields - self.mean) / self.spread, 2)
        first = self.down1(x)
        second = self.down2(functional.avg_pool2d(first, 2))
        deep = self.bottom(functional.avg_pool2d(second, 2))
        deep = self.up2(torch.cat((_doubled(deep), second), 1))
        deep = self.up1(torch.cat((_doubled(deep), first), 1))
        step: Tensor = functional.pixel_shuffle(self.last(deep), 2) * self.increment
        return fields + step

    def loss(self, pairs: Tensor) -> dict[str, Tensor]:
        """Of pairs (B, 2, C, H, W): mean square error over the sphere, in variances of the increments."""
        wrong = (self(pairs[:, 0]) - pairs[:, 1]) / self.increment
        return {"loss": (wrong**2 * self.area).mean()}

    @torch.no_grad()
    def forecast(self, fields: Tensor, steps: int) -> Tensor:
        """Step by step from fields (B, C, H, W). Returns: (steps, B, C, H, W)."""
        found = []
        for _ in range(steps):
            fields = self(fields)
            found.append(fields)
        return torch.stack(found)

    @classmethod
    def fit(
        cls,
        runs: np.ndarray,
        *,
        width: int = 32,
        epochs: int = 10,
        batch: int = 16,
        lr: float = 1e-3,
        seed: int = 0,
        report: Callable[[Record], object] | None = None,
    ) -> Self:
        """Fit to consecutive frames of runs (n, times, C, H, W), two times at least.

        Raises: UnusableData: no pair of frames, not a grid of 8k x 16k points, or values that are not finite.
        """
        x = np.asarray(runs, dtype=np.float32)
        if x.ndim != 5 or x.shape[1] < 2 or x.shape[3] % 8 or x.shape[4] != 2 * x.shape[3] or not np.isfinite(x).all():
            raise UnusableData(
                tuple(x.shape), "frames (runs, times >= 2, channels, 8k, 16k) of finite numbers are needed"
            )
        torch.manual_seed(seed)
        model = cls(x.shape[2], x.shape[3], width)
        axes = (0, 1, 3, 4)
        model.mean.copy_(torch.from_numpy(x.mean(axes))[:, None, None])
        model.spread.copy_(torch.from_numpy(x.std(axes))[:, None, None] + 1e-12)
        model.increment.copy_(torch.from_numpy(np.diff(x, axis=1).std(axes))[:, None, None] + 1e-12)
        pairs = np.stack([x[:, :-1], x[:, 1:]], axis=2).reshape(-1, 2, *x.shape[2:])
        return fit(
            model, torch.from_numpy(pairs), cls.loss, epochs=epochs, batch=batch, lr=lr, seed=seed, report=report
        )


def sphere_pad(fields: Tensor) -> Tensor:
    """One more row and column on every side: around in longitude, and across the poles to the opposite longitude.

    Args: (B, C, H, W), W even. Returns: (B, C, H + 2, W + 2).
    """
    half = fields.shape[3] // 2
    rows = (fields[:, :, :1].roll(half, 3), fields, fields[:, :, -1:].roll(half, 3))
    return functional.pad(torch.cat(rows, 2), (1, 1, 0, 0), mode="circular")


class _SphereConv(nn.Conv2d):
    def forward(self, fields: Tensor) -> Tensor:
        return super().forward(sphere_pad(fields))


def _level(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        _SphereConv(inputs, outputs, 3), nn.GroupNorm(GROUPS, outputs), nn.GELU(),
        _SphereConv(outputs, outputs, 3), nn.GroupNorm(GROUPS, outputs), nn.GELU(),
    )  # fmt: skip


def _doubled(fields: Tensor) -> Tensor:
    return functional.interpolate(fields, scale_factor=2, mode="nearest")
