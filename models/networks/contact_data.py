"""Arrays of contact maps -> tensors that a network can train on, checked and still packed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from steersman.models.errors import real
from steersman.system.errors import BadValue


def checked_maps(contacts: np.ndarray, size: int | None = None) -> Tensor:
    """Check contact maps and share their memory with a tensor.

    Args:
        contacts: (n, R, R) bool, uint8 or float in 0..1.
        size: the R that is wanted; None takes any.
    Returns: (n, R, R) uint8, or float32 when they were float.
    Raises: BadValue: no maps, maps that are not square or not of this size, or values outside 0..1.
    """
    maps = np.ascontiguousarray(real(contacts))
    _check_shape(maps.shape, size)
    if maps.dtype == np.bool_:
        return _shared(maps.view(np.uint8))
    if not (maps.min() >= 0 and maps.max() <= 1):  # a NaN is neither
        raise BadValue(
            "shape", maps.shape, "maps, as of contacts, hold numbers from 0 to 1; found NaN or something outside"
        )
    return _shared(maps.astype(np.float32 if maps.dtype.kind == "f" else np.uint8, copy=False))


def _check_shape(shape: tuple[int, ...], size: int | None) -> None:
    if len(shape) != 3 or shape[1] != shape[2]:
        raise BadValue("shape", shape, "maps, as of contacts, are square: (frames, R, R)")
    if 0 in shape:
        raise BadValue("shape", shape, "there are no maps")
    if size is not None and shape[1] != size:
        raise BadValue("shape", shape, f"the model was built for maps of {size}x{size}")


def _shared(maps: np.ndarray) -> Tensor:
    # torch warns when it shares memory that may not be written; nothing here writes, and a copy doubles the window.
    return torch.from_numpy(maps if maps.flags.writeable else maps.copy())
