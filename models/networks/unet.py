"""Fields on the sphere -> the same fields some hours later: a U-Net that knows it is on a sphere.

Axes: B batch, C channels, H latitudes from the north, W longitudes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import at_least
from steersman.models.networks.forecaster import Forecaster
from steersman.models.networks.spherical_convolution import SphereConv

GROUPS = 8  # of the normalization: a batch of few large fields has no statistics of its own


class SphericalUNet(Forecaster):
    """Steps of fields on the sphere: three levels of 3x3 convolutions below a pixel unshuffle.

    Args:
        latitudes: a multiple of 8.
        width: channels of the first level, a multiple of 8; doubled at each of the two below.
        laws: what the flow keeps, see Forecaster.
    Source: Ronneberger et al. (2015), U-Net, arXiv 1505.04597.
    """

    def __init__(self, channels: int, latitudes: int, *, width: int = 32, **laws: Any) -> None:
        super().__init__(channels, latitudes, width=width, **laws)
        at_least(1, width=width)
        self.down1 = _level(4 * channels, width)
        self.down2 = _level(width, 2 * width)
        self.bottom = _level(2 * width, 4 * width)
        self.up2 = _level(6 * width, 2 * width)
        self.up1 = _level(3 * width, width)
        self.last = nn.Conv2d(width, 4 * channels, 1)
        nn.init.zeros_(self.last.weight)  # an untrained network is persistence
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]
        self.float()

    def change(self, fields: Tensor) -> Tensor:
        """See Forecaster."""
        first = self.down1(functional.pixel_unshuffle(fields, 2))
        second = self.down2(functional.avg_pool2d(first, 2))
        deep = self.bottom(functional.avg_pool2d(second, 2))
        deep = self.up2(torch.cat((_doubled(deep), second), 1))
        deep = self.up1(torch.cat((_doubled(deep), first), 1))
        return functional.pixel_shuffle(self.last(deep), 2)


def _level(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        SphereConv(inputs, outputs), nn.GroupNorm(GROUPS, outputs), nn.GELU(),
        SphereConv(outputs, outputs), nn.GroupNorm(GROUPS, outputs), nn.GELU(),
    )  # fmt: skip


def _doubled(fields: Tensor) -> Tensor:
    return functional.interpolate(fields, scale_factor=2, mode="nearest")
