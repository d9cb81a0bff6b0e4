"""Cubes of matter -> the parameters of their universe: CosmoFlow's three-dimensional convolutions.

Axes: B batch, C channels, S voxels along an edge, T targets.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from steersman.models.errors import at_least, edges_of
from steersman.models.model import Model

LAYERS, HIDDEN, SLOPE, DROPOUT = 5, (128, 64), 0.3, 0.5
EVEN, STRETCH = math.log(2.0), 3.0  # log(1 + x) where matter is even, and one over its spread
REACH = 1.2  # of the outputs; targets are scaled to -1 to 1, so that none lies where the tanh is flat


class CosmoFlow(Model):
    """Numbers from a cube: five convolutions, each halving it, and three dense layers.

    Args:
        size: S, a multiple of 32; with 128 and four channels it has the 8,907,556 parameters of the paper.
        channels: C, e.g. one for each snapshot.
        targets: T.
        width: of the first convolution; each further one has twice as many. Fewer than 32 are for CPUs.
        dropout: share of the dense layers' numbers that a training step leaves out.
    Raises: BadValue: a size below 32, or fewer than one channel, target or number of a layer, or the size is no
        multiple of 32.
    Source: Mathuriya et al. (2018), CosmoFlow, arXiv 1808.04728; as in MLPerf HPC.
    """

    def __init__(
        self, size: int = 128, channels: int = 4, targets: int = 4, width: int = 32, dropout: float = DROPOUT
    ) -> None:
        super().__init__(size=size, channels=channels, targets=targets, width=width, dropout=dropout)
        at_least(2**LAYERS, size=size)
        edges_of(2**LAYERS, (size, size))
        at_least(1, channels=channels, targets=targets, width=width)
        widths = [width * 2**layer for layer in range(LAYERS)]
        layers: list[nn.Module] = []
        for inputs, outputs in zip((channels, *widths), widths, strict=False):
            layers += [nn.Conv3d(inputs, outputs, 3, padding=1), nn.LeakyReLU(SLOPE), nn.MaxPool3d(2)]
        layers.append(nn.Flatten())
        dense = (widths[-1] * (size // 2**LAYERS) ** 3, *HIDDEN)
        for inputs, outputs in zip(dense, HIDDEN, strict=False):
            layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(SLOPE), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], targets), nn.Tanh())
        for module in self.modules():  # as the reference; with torch's own first weights all cubes look the same
            if isinstance(module, nn.Conv3d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.constant_(module.bias, 0.0)  # type: ignore[arg-type]  # each has one

    def forward(self, cubes_BCSSS: Tensor) -> Tensor:
        """Give the targets (B, T), from -1.2 to 1.2, of cubes (B, C, S, S, S) of counts or densities with mean 1.

        They are taken as log(1 + x) as in the reference, shifted and stretched to a mean near 0 and a spread near 1:
        without that, a network learns little from hundreds of cubes.
        """
        found: Tensor = REACH * self.layers(STRETCH * (torch.log1p(cubes_BCSSS) - EVEN))
        return found
