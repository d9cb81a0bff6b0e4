"""Network, batch -> floating-point operations of one training step, counted from the shapes of its layers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor, nn

LAYERS = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)


def training_flops(model: nn.Module, step: Callable[[], Any]) -> int:
    """Count multiplications and additions of convolutions and dense layers, forward and backward.

    A layer's backward pass costs twice its forward pass, once where nobody wants the gradient of its input; biases,
    activations, losses and optimizers are left out, as usual.

    Args:
        step: calls the model on a batch, with gradients; the "meta" device does, and computes nothing.
    """
    counted: list[int] = []

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passes = 3 if inputs[0].requires_grad else 2
        counted.append(passes * forward_flops(layer, inputs[0], output))

    hooks = [layer.register_forward_hook(count) for layer in model.modules() if isinstance(layer, LAYERS)]
    try:
        step()
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counted)


def forward_flops(layer: nn.Module, taken: Tensor, given: Tensor) -> int:
    """Count two for each number of the kernel and each place where it is laid.

    Args:
        layer: one of LAYERS.
        taken, given: its input and output; only their shapes matter.
    """
    assert isinstance(layer, LAYERS)
    if isinstance(layer, nn.Linear):
        return 2 * given.numel() * layer.in_features
    if isinstance(layer, nn.ConvTranspose2d):
        return 2 * taken.numel() * layer.out_channels * prod(layer.kernel_size)
    return 2 * given.numel() * layer.in_channels * prod(layer.kernel_size)
