"""A loss -> the same loss, compiled, or replayed as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steersman.system.errors import UnknownName

CHOICES = ("no", "yes", "graphs")

Loss = Callable[..., dict[str, Tensor]]  # of a model and a batch of each of its data


def compiled(loss: Loss, word: str, device: torch.device) -> Loss:
    """Compile a loss for one shape of batch after another, forward and backward.

    On a CPU it did not pay (docs/training.md). "graphs" replays a whole pass as one launch, for networks so small that
    a GPU waits for launches; no GPU was there to try it on.

    Args:
        word: "no", "yes", or on a CUDA device "graphs".
    Raises: UnknownName: another word, or graphs elsewhere.
    """
    choices = CHOICES if device.type == "cuda" else CHOICES[:2]
    if word not in choices:
        raise UnknownName(f"compiled on {device.type}", word, choices)
    if word == "no":
        return loss
    inner = torch.compile(loss, dynamic=False, mode="reduce-overhead" if word == "graphs" else None)

    def step(model: Any, *batch: Tensor) -> dict[str, Tensor]:
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        # Copies, since a graph writes its next results where it wrote the last.
        return {name: value.clone() for name, value in inner(model, *batch).items()}

    return step
