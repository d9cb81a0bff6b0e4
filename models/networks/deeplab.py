"""Images -> a class of every pixel: DeepLabv3+ as used for storms (16 channels, 768x1152, 3 classes).

Axes: B batch, C channels, H and W pixels, multiples of 8, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import at_least, edges_of
from steersman.models.model import Model
from steersman.models.networks.resnet import BLOCKS, EXPANSION, WIDTHS

RATES = (12, 24, 36)  # of the dilated convolutions that look around
STRIDES, DILATIONS = (1, 2, 1, 1), (1, 1, 2, 4)  # of the four stages: 8 pixels become one


class DeepLab(Model):
    """Classes of pixels: a residual network of 50 layers that keeps an eighth of the resolution, and a decoder.

    Args:
        channels: C of the images.
        classes: K.
        width: of every layer, over that of the paper; a quarter suits a CPU.
    Raises: BadValue: fewer than one channel or class, or a width below 1/64.
    Source: Chen et al. (2018), arXiv 1802.02611; the decoder to full resolution is that of Kurth et al. (2018),
        Exascale deep learning for climate analytics, arXiv 1810.01993.
    """

    def __init__(self, channels: int = 16, classes: int = 3, width: float = 1.0) -> None:
        super().__init__(channels=channels, classes=classes, width=width)
        at_least(1, channels=channels, classes=classes)
        at_least(1 / 64, width=width)
        stem, low, middle, raw, skipped = (int(width * each) for each in (64, 256, 256, 64, 48))
        self.stem = nn.Sequential(nn.Conv2d(channels, stem, 7, 2, padding=3, bias=False), nn.MaxPool2d(3, 2, padding=1))
        stages, inputs = [], stem
        for blocks, across, stride, dilation in zip(BLOCKS, WIDTHS, STRIDES, DILATIONS, strict=True):
            hidden = int(width * across)
            steps = [Preactivated(inputs, hidden, stride, dilation)]
            inputs = hidden * EXPANSION
            stages.append(nn.Sequential(*steps, *(Preactivated(inputs, hidden, 1, dilation) for _ in range(1, blocks))))
        self.low, *deeper = stages
        self.deep = nn.Sequential(*deeper, nn.BatchNorm2d(inputs), nn.ReLU())
        self.around = nn.ModuleList([
            _convolved(inputs, middle, 1), *(_convolved(inputs, middle, 3, rate) for rate in RATES)
        ])  # fmt: skip
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inputs, middle, 1), nn.ReLU())
        self.joined = nn.Sequential(_convolved((len(RATES) + 2) * middle, middle, 1), _doubled(middle, middle))
        self.skip_low = _convolved(low, skipped, 1)
        self.skip_raw = _convolved(channels, raw, 3)
        self.to_quarter = nn.Sequential(_convolved(middle + skipped, middle, 3), _convolved(middle, middle, 3))
        self.to_full = nn.Sequential(_doubled(middle, middle), _doubled(middle, middle))
        self.out = nn.Sequential(
            _convolved(middle + raw, middle, 3), _convolved(middle, middle, 3), nn.Conv2d(middle, classes, 1)
        )
        self.to(torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]  # docs/training.md

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Give the logits (B, K, H, W) of (B, C, H, W) float images."""
        edges_of(8, images_BCHW.shape)
        low = self.low(self.stem(images_BCHW))
        deep = self.deep(low)
        views = [view(deep) for view in self.around] + [self.whole(deep).expand(-1, -1, *deep.shape[2:])]
        quarter = self.to_quarter(torch.cat([self.joined(torch.cat(views, 1)), self.skip_low(low)], 1))
        logits: Tensor = self.out(torch.cat([self.to_full(quarter), self.skip_raw(images_BCHW)], 1))
        return logits


class Preactivated(nn.Module):
    """Norm and ReLU before each of 1x1, 3x3, 1x1 convolutions, beside a short cut (ResNet-v2)."""

    def __init__(self, inputs: int, hidden: int, stride: int, dilation: int) -> None:
        super().__init__()
        outputs = hidden * EXPANSION
        self.before = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU()),
            nn.Conv2d(hidden, hidden, 3, stride, padding=dilation, dilation=dilation, bias=False),
            *(nn.BatchNorm2d(hidden), nn.ReLU(), nn.Conv2d(hidden, outputs, 1, bias=False)),
        )
        same = stride == 1 and inputs == outputs
        self.short_cut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Halve height and width where the stride is 2."""
        ready = self.before(x_BCHW)
        given = x_BCHW if isinstance(self.short_cut, nn.Identity) else self.short_cut(ready)
        found: Tensor = self.body(ready) + given
        return found


def weighted_loss(logits_BKHW: Tensor, labels_BHW: Tensor, weights_K: Tensor) -> Tensor:
    """Mean cross-entropy of the pixels, nats, each by the weight of its class."""
    each = functional.cross_entropy(logits_BKHW, labels_BHW, reduction="none")
    return (each * weights_K[labels_BHW]).mean()


def _convolved(inputs: int, outputs: int, size: int, dilation: int = 1) -> nn.Sequential:
    padding = dilation * (size // 2)
    convolution = nn.Conv2d(inputs, outputs, size, padding=padding, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def _doubled(inputs: int, outputs: int) -> nn.Sequential:
    """Twice the height and width."""
    up = nn.ConvTranspose2d(inputs, outputs, 3, 2, padding=1, output_padding=1, bias=False)
    return nn.Sequential(up, nn.BatchNorm2d(outputs), nn.ReLU())
