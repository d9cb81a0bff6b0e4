"""Ranks -> one block of weights: which samples a rank takes, and what all kinds of sharing exchange.

Over torch.distributed's default group where one was joined (see launch.py), else one process with nobody to talk to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from steersman.models.errors import TooManyRanks, ranks_differ
from steersman.models.model import Model
from steersman.models.ranks.block import averaged, gradient_block, one_block
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.single import Single, parts
from steersman.models.ranks.strategy import Strategy


class Shared(Single):
    """Ranks that begin with rank 0's weights, all of them in one contiguous block.

    Attributes:
        block: 1-d; every parameter and floating-point buffer is a view of it.
    Raises:
        TooManyRanks: one of several ranks would have no full batch.
        EngineError: of another network, number of samples, batch or strategy.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if samples // batch < self.size > 1:
            raise TooManyRanks(self.size, samples, batch)
        shapes = [(name, tuple(tensor.shape)) for name, tensor in model.state_dict().items()]
        self.agree("network, data, batch, seed or strategy", f"{shapes} {samples} {batch} {seed} {strategy}".encode())
        self.block = one_block(averaged(model))
        if self.size > 1:
            with exchanging(self.rank, self.size):
                dist.broadcast(self.block, src=0)

    def add_up(self, numbers: Tensor) -> None:
        if self.size > 1:
            with exchanging(self.rank, self.size):
                dist.all_reduce(numbers)

    def check(self) -> None:
        self.agree("weights", self.block.cpu().numpy().tobytes())

    def agree(self, what: str, data: bytes) -> None:
        if self.size == 1:
            return
        digest = torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.int64)
        all_digests = [torch.empty_like(digest) for _ in range(self.size)]
        with exchanging(self.rank, self.size):
            dist.all_gather(all_digests, digest)
        for rank, other in enumerate(all_digests):
            if not torch.equal(other, all_digests[0]):
                raise ranks_differ(rank, what)


class WithGradients(Shared):
    """Ranks that exchange gradients, which lie in one contiguous block too.

    Attributes:
        gradients: 1-d; every parameter's gradient is a view of it.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.gradients = gradient_block(model)
        self.weights, self._buffers = self.block[: len(self.gradients)], self.block[len(self.gradients) :]

    def begin_step(self, share: float) -> None:
        self.gradients.zero_()

    def combine_weights(self, step: int, steps: int) -> None:
        if step == steps and len(self._buffers):  # running means of normalisation layers; the weights are the same
            self.add_up(self._buffers)
            self._buffers.div_(self.size)


class OwnSteps(Shared):
    """Each rank steps alone on its own share of the samples, in an order of its own."""

    own_moments = True

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.order.manual_seed((seed + self.rank) % 2**63)
        self.share = share_of(samples, self.rank, self.size)

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = self.order_of(self.share, self.order)
        return [(picked, 1.0) for picked in parts(order, self.batch)]


def share_of(samples: int, rank: int, ranks: int) -> Tensor:
    """The samples of a rank that steps alone: neighbours in time are spread over the ranks."""
    return torch.arange(samples)[rank::ranks]
