"""A function of one tensor -> the same function, replayed on a GPU as one CUDA graph.

A step of the solver is 280 kernels at T42 and 360 at T85, most of a few microseconds while members are few: a GPU is
done with each before a CPU has launched the next. Written from torch's documentation; no GPU was there to run it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

Function = Callable[[torch.Tensor], torch.Tensor]

# Numbers of a state (130 members of T85) beyond which kernels take longer than launches, by the traffic of a step, 40
# MB a member, at 3 TB/s and 5 us a launch: estimated, not measured.
LARGEST = 3_000_000


def pays(device: torch.device, numbers: int) -> bool:
    """Whether a GPU would wait for launches."""
    return device.type == "cuda" and numbers <= LARGEST


def replayed(function: Function, like: torch.Tensor) -> Function:
    """Capture a function once, for tensors of this shape on this GPU.

    Args:
        function: its kernels depend on no value: it asks the device for none (`.item()`, a branch) and takes nothing
            from the host (an index in a list). What it reads and writes beside its argument stays where it is, and must
            live as long as what is returned.
    """
    with torch.cuda.device(like.device):
        graph = cast(Function, torch.cuda.make_graphed_callables(function, (like.clone(),)))
    return lambda given: graph(given).clone()  # the next replay writes where this one did
