"""Images -> a class of every pixel: Tiramisu, dense blocks in the shape of a U, as used for storms.

Axes: B batch, C channels, H and W pixels, multiples of 16, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steersman.models.errors import at_least, edges_of
from steersman.models.model import Model

LAYERS, BOTTOM = (2, 2, 2, 4), 5  # of the dense blocks on the way down, and of the lowest
STEM, GROWTH, SIZE, DROPOUT = 48, 32, 5, 0.2
FEWEST = 5  # channels that a layer adds; with fewer, torch 2.13 writes beyond its memory in the backward pass on a CPU


class Tiramisu(Model):
    """Classes of pixels: every layer of a block sees the outputs of all layers before it.

    Args:
        channels: C of the images.
        classes: K.
        width: of every layer, over that of the paper; a quarter suits a CPU.
    Raises: BadValue: fewer than one channel or class, or a width below 5/32.
    Source: Jegou et al. (2017), arXiv 1611.09326; blocks, growth and 5x5 filters are those of Kurth et al. (2018),
        Exascale deep learning for climate analytics, arXiv 1810.01993.
    """

    def __init__(self, channels: int = 16, classes: int = 3, width: float = 1.0) -> None:
        super().__init__(channels=channels, classes=classes, width=width)
        at_least(1, channels=channels, classes=classes)
        at_least(FEWEST / GROWTH, width=width)
        growth, now = int(width * GROWTH), int(width * STEM)
        self.stem = nn.Conv2d(channels, now, 3, padding=1, bias=False)
        self.down, self.lower, kept = nn.ModuleList(), nn.ModuleList(), []
        for layers in LAYERS:
            self.down.append(Dense(now, growth, layers))
            now += layers * growth
            kept.append(now)
            self.lower.append(nn.Sequential(nn.BatchNorm2d(now), nn.ReLU(), nn.Conv2d(now, now, 1, 2, bias=False)))
        self.bottom = Dense(now, growth, BOTTOM)
        new = BOTTOM * growth
        self.higher, self.up = nn.ModuleList(), nn.ModuleList()
        for layers, beside in zip(reversed(LAYERS), reversed(kept), strict=True):
            self.higher.append(nn.ConvTranspose2d(new, new, 3, 2, padding=1, output_padding=1, bias=False))
            self.up.append(Dense(new + beside, growth, layers))
            now, new = new + beside, layers * growth
        self.out = nn.Conv2d(now + new, classes, 1)
        self.to(torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]  # docs/training.md

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Give the logits (B, K, H, W) of (B, C, H, W) float images."""
        edges_of(16, images_BCHW.shape)
        x, kept = self.stem(images_BCHW), []
        for dense, lower in zip(self.down, self.lower, strict=True):
            x = torch.cat([x, dense(x)], 1)
            kept.append(x)
            x = lower(x)
        new = self.bottom(x)
        for higher, dense in zip(self.higher, self.up, strict=True):
            x = torch.cat([higher(new), kept.pop()], 1)
            new = dense(x)
        logits: Tensor = self.out(torch.cat([x, new], 1))
        return logits


class Dense(nn.Module):
    """Layers of norm, ReLU, 5x5 convolution and dropout, each fed with all before it."""

    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                *(nn.BatchNorm2d(inputs + number * growth), nn.ReLU()),
                nn.Conv2d(inputs + number * growth, growth, SIZE, padding=SIZE // 2, bias=False),
                nn.Dropout2d(DROPOUT),
            )
            for number in range(layers)
        )

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Give what the layers add, (B, layers x growth, H, W)."""
        grown: list[Tensor] = []
        for layer in self.layers:
            grown.append(layer(torch.cat([x_BCHW, *grown], 1)))
        return torch.cat(grown, 1)
