"""Gradients that are ready -> on their way to the other ranks, while the backward pass goes on with the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

BUCKET_BYTES = 4 * 2**20  # sent at once: latency is a small part of it, and DeepEx's 26 M weights are 25 of them


class Work(Protocol):
    """An exchange that was begun."""

    def wait(self) -> object: ...


class Buckets:
    """Sends a block of gradients part by part, those of the last layers, which are ready first, at first.

    The order is the same on all ranks, whatever is ready when: a part waits for those before it.

    Args:
        parameters: each with a gradient that is a view of the block, in the order in which these lie there.
        block: 1-d.
        send: begins to exchange a part of the block.
    """

    def __init__(self, parameters: Sequence[Parameter], block: Tensor, send: Callable[[Tensor], Work]) -> None:
        self._send = send
        self._parts: list[Tensor] = []
        self._sizes: list[int] = []  # how many gradients of each part are waited for
        self._handles: list[RemovableHandle] = []
        begins = [parameter.grad.storage_offset() for parameter in parameters if parameter.grad is not None]
        first = last = len(parameters)
        ends = [*begins, len(block)]
        while first > 0:
            first -= 1
            if first == 0 or (ends[last] - begins[first - 1]) * block.itemsize > BUCKET_BYTES:
                self._add(parameters[first:last], block[begins[first] : ends[last]])
                last = first
        self.begin()

    def _add(self, parameters: Sequence[Parameter], part: Tensor) -> None:
        number = len(self._parts)
        self._parts.append(part)
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._sizes.append(len(trained))
        for parameter in trained:
            handle = parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda _: self._ready(number)
            )
            self._handles.append(handle)

    def begin(self) -> None:
        """Before a backward pass."""
        self._left = list(self._sizes)
        self._works: list[Work] = []

    def end(self) -> None:
        """After it, or where there is none for want of samples: send what is left, and wait for all of it."""
        for part in self._parts[len(self._works) :]:
            self._works.append(self._send(part))
        for work in self._works:
            work.wait()

    def close(self) -> None:
        """Let go of the parameters, and of exchanges that an error has left: they keep the group's sockets open."""
        for handle in self._handles:
            handle.remove()
        self._works.clear()

    def _ready(self, number: int) -> None:
        self._left[number] -= 1
        while len(self._works) < len(self._parts) and self._left[len(self._works)] == 0:
            self._works.append(self._send(self._parts[len(self._works)]))
