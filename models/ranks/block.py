"""Tensors of a model -> one contiguous block of memory, so that ranks exchange all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steersman.models.model import Model

ALIGNED = 16  # float32 numbers: 64 bytes, on which matrix libraries repeat their results bit for bit


def gradient_block(model: Model) -> Tensor:
    """Give every parameter a gradient of zeros, all of them views of the block that is returned, as of `one_block`."""
    gradients = [torch.zeros_like(parameter) for parameter in model.parameters()]
    block = one_block(gradients)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    return block


@torch.no_grad()
def one_block(tensors: Sequence[Tensor], block: Tensor | None = None) -> Tensor:
    """Move tensors of one type and device into one contiguous block, of which each becomes a view.

    Args:
        block: of zeros, where it shall be; None makes a new one.
    Returns: 1-d; each tensor begins at a multiple of 64 bytes, with its numbers in the order in which it had them (as
        of channels_last), what lies between is 0.
    """
    sizes = [-(-tensor.numel() // ALIGNED) * ALIGNED for tensor in tensors]
    if block is None:
        block = torch.zeros(sum(sizes), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, torch.split(block, sizes), strict=True):
        view = part.as_strided(tensor.shape, tensor.stride())
        view.copy_(tensor)
        tensor.data = view
    return block


def averaged(model: Model) -> list[Tensor]:
    """Give parameters and running means, of which ranks keep one value between them."""
    return [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
