"""Images -> class scores: ResNet-50, for AtomAI's defects (1 channel, 120x85, 27 classes) and ImageNet.

Axes: B batch, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steersman.models.errors import at_least
from steersman.models.model import Model

BLOCKS, WIDTHS, EXPANSION = (3, 4, 6, 3), (64, 128, 256, 512), 4


class ResNet50(Model):
    """Classes of images: fifty layers in bottleneck blocks.

    Args:
        channels: C of the images.
        classes: K; 27 and one channel are AtomAI's 23,557,083 parameters, 1000 and three ImageNet's 25,557,032.
    Source: He et al. (2015), arXiv 1512.03385, table 1; a block's stride is in its 3x3 convolution, as in Goyal et al.
        (2017).
    """

    def __init__(self, channels: int = 3, classes: int = 1000) -> None:
        super().__init__(channels=channels, classes=classes)
        at_least(1, channels=channels, classes=classes)
        stem = [nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, padding=1)]
        inputs = 64
        for stage, (blocks, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True)):
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width, stride=2 if stage > 0 and block == 0 else 1))
                inputs = width * EXPANSION
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.to(torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]  # docs/training.md

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Give the logits (B, K) of (B, C, H, W) float images."""
        logits: Tensor = self.layers(images_BCHW)
        return logits


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions beside a short cut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.short_cut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short_cut.extend([nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)])

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Halve height and width where the stride is 2."""
        return torch.relu(self.body(x_BCHW) + self.short_cut(x_BCHW))
