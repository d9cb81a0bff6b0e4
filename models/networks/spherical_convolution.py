"""Fields on the sphere -> their 3x3 convolutions: a grid that has no border, neither in longitude nor at the poles."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class SphereConv(nn.Conv2d):
    """Of kernel size 3, on fields (B, C, H, W) that stay as large as they are; see `sphere_pad`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3)

    def forward(self, fields: Tensor) -> Tensor:
        """Fields (B, inputs, H, W), W even -> (B, outputs, H, W)."""
        return super().forward(sphere_pad(fields))


def sphere_pad(fields: Tensor) -> Tensor:
    """One more row and column on every side: around in longitude, and across the poles to the opposite longitude.

    Args: (B, C, H, W), W even. Returns: (B, C, H + 2, W + 2).
    """
    half = fields.shape[3] // 2
    rows = (fields[:, :, :1].roll(half, 3), fields, fields[:, :, -1:].roll(half, 3))
    return functional.pad(torch.cat(rows, 2), (1, 1, 0, 0), mode="circular")
