"""Ranks that take the same step, with the average of their gradients."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from steersman.models.model import Model
from steersman.models.ranks.buckets import Buckets, Work
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.shared import WithGradients
from steersman.models.ranks.single import parts
from steersman.models.ranks.strategy import Strategy
from steersman.models.steps import optimizers
from steersman.models.steps.stepper import Stepper


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

    def _send(self, part: Tensor) -> Work:
        """Begin to sum a part of the gradients over the ranks, each weighted by its samples."""
        with exchanging(self.rank, self.size):
            work: Work = dist.all_reduce(part.mul_(self._share), async_op=True)
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
