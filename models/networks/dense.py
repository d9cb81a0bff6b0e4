"""Dense layers with tanh between them, in float64: what a model's coordinate is to a simulation that it biases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

Layers = list[tuple[np.ndarray, np.ndarray]]


def dense(mean: Tensor, scale: Tensor, *linear: nn.Linear) -> Layers:
    """(out, in) weights and (out,) offsets of each layer; the first takes rows x and not (x - mean) / scale."""
    (weights, offsets), *rest = (
        (layer.weight.detach().numpy().astype(float), layer.bias.detach().numpy().astype(float)) for layer in linear
    )
    weights = weights / float(scale)
    return [(weights, offsets - weights @ mean.numpy().astype(float)), *rest]


def relative(mean: Tensor, scale: Tensor, x: np.ndarray) -> np.ndarray:
    """Rows x (n, in), less their mean, over their scale, as float32: what digits they have beside a large mean stay."""
    return np.asarray((x - mean.numpy()) / scale.numpy(), np.float32)


def through(layers: Sequence[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """(n, out) float64 of rows x (n, in)."""
    *inner, (weights, offsets) = layers
    for matrix, shift in inner:
        x = np.tanh(x @ matrix.T + shift)
    return np.asarray(x @ weights.T + offsets)
