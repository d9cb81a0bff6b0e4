"""Ranks that take the same step, with the average of their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from steersman.models.model import Model
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.shared import WithGradients
from steersman.models.ranks.single import parts
from steersman.models.ranks.strategy import Strategy
from steersman.models.steps import optimizers
from steersman.models.steps.stepper import Stepper

BUCKET_BYTES = 4 * 2**20  # sent at once: latency is a small part of it, and DeepEx's 26 M weights are 25 of them


class DDP(WithGradients):
    """Gradients averaged at every step: `size` ranks are one with `size` times the batch.

    They are exchanged while the backward pass goes on, in buckets, of which a small network has one. With a lag of 1 a
    step is taken with the gradients of the step before, the first with zeros, the last one's are dropped: the exchange
    has a whole step's time to happen beside the computation.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.lag = strategy.number
        self.late, self._exchange = torch.zeros_like(self.gradients) if self.lag else None, None
        self._share = 1.0
        self._buckets = None
        if self.size > 1 and self.late is None:
            self._buckets = Buckets(self._parameters, self.gradients, self._send)

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = self.order_of(torch.arange(self.samples), self.order)  # the same on all ranks
        steps = parts(order, self.batch * self.size)
        own = [torch.tensor_split(picked, self.size)[self.rank] for picked in steps]
        return [(part, len(part) / len(picked)) for part, picked in zip(own, steps, strict=True)]

    def begin_step(self, share: float) -> None:
        super().begin_step(share)
        self._share = share
        if self._buckets is not None:
            self._buckets.begin()

    def combine_gradients(self) -> None:
        if self._buckets is not None:
            with exchanging(self.rank, self.size):
                self._buckets.end()
            return
        self.gradients.mul_(self._share)
        if self.late is not None:
            self._put_off(self.late)

    def _send(self, part: Tensor) -> PendingExchange:
        """Begin to sum a part of the gradients over the ranks, each weighted by its samples."""
        with exchanging(self.rank, self.size):
            work: PendingExchange = dist.all_reduce(part.mul_(self._share), async_op=True)
        return work

    def _put_off(self, late: Tensor) -> None:
        """Give the last step's gradients in place of this one's, which are exchanged until the next."""
        self._arrive()
        new = self.gradients.clone()
        self.gradients.copy_(late)
        self.late = new
        if self.size > 1:
            with exchanging(self.rank, self.size):
                self._exchange = dist.all_reduce(self.late, async_op=True)

    def close(self) -> None:
        super().close()
        self._exchange = None
        if self._buckets is not None:
            self._buckets.close()

    def check(self) -> None:
        self._arrive()
        super().check()

    def exchanged(self) -> dict[str, Tensor]:
        self._arrive()
        return {} if self.late is None else {"late": self.late}

    def restore(self, exchanged: Mapping[str, Tensor]) -> None:
        if self.late is not None and "late" in exchanged:
            self.late.copy_(exchanged["late"])

    def _arrive(self) -> None:
        """Wait for the exchange that was begun at the last step."""
        if self._exchange is not None:
            with exchanging(self.rank, self.size):
                self._exchange.wait()
            self._exchange = None


class Zero(DDP):
    """DDP where each rank keeps the optimizer's moments of its part of the weights, changes these, and sends them."""

    def optimizer(self, name: str, parameters: list[nn.Parameter], lr: float) -> Optimizer:
        if self.size == 1:
            return super().optimizer(name, parameters, lr)
        from torch.distributed.optim import ZeroRedundancyOptimizer  # takes a second to import

        build = functools.partial(optimizers.optimizer, name)
        return ZeroRedundancyOptimizer(parameters, build, lr=lr)  # type: ignore[arg-type]

    def change_weights(self, stepper: Stepper, epoch: float) -> None:
        with exchanging(self.rank, self.size):
            stepper.step(epoch)

    def facts(self, stepper: Stepper) -> dict[str, Any]:
        held = torch.zeros(self.size, dtype=torch.int64)
        held[self.rank] = stepper.optimizer_bytes
        self.add_up(held)
        return {"optimizer_bytes": held.tolist()}


class PendingExchange(Protocol):
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

    def __init__(
        self, parameters: Sequence[Parameter], block: Tensor, send: Callable[[Tensor], PendingExchange]
    ) -> None:
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
        self._works: list[PendingExchange] = []

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
