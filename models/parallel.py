"""Ranks -> one model: which samples a rank takes, and what it exchanges with the others.

Over torch.distributed's default group where one was joined (see ranks.py), else one process with nobody to talk to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from steersman.models.errors import RankLost, RanksDiffer, TooManyRanks
from steersman.models.model import Model
from steersman.models.strategy import Strategy

ALIGNED = 16  # float32 numbers: 64 bytes, on which matrix libraries repeat their results bit for bit


class Single:
    """One process; also the base of those that share.

    Args:
        samples: to train on.
        batch: samples per step of each rank.
        seed: of the order, a new one every epoch.
    Attributes:
        rank, size: of this process, and how many train together.
    """

    rank, size = 0, 1

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        self.model, self.samples, self.batch = model, samples, batch
        self.order = torch.Generator().manual_seed(seed % 2**63)

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        """Give an epoch's steps: the samples (at most `batch` indices), and their share of all ranks' in this step."""
        order = torch.randperm(self.samples, generator=self.order)
        return [(picked, 1.0) for picked in torch.split(order, self.batch)]

    def clear_gradients(self) -> None:
        """Begin a step."""
        for parameter in self.model.parameters():
            parameter.grad = None

    def combine_gradients(self, share: float) -> None:
        """After the backward pass."""

    def combine_weights(self, step: int, steps: int) -> None:
        """After step `step` (from 1) of an epoch's `steps`."""

    def add_up(self, numbers: Tensor) -> None:
        """Sum over the ranks, in place."""

    def check(self) -> None:
        """See that all ranks ended with the same weights."""


class Shared(Single):
    """Ranks that begin with rank 0's weights, all of them in one contiguous block.

    Attributes:
        block: 1-d; every parameter and floating-point buffer is a view of it.
    Raises:
        TooManyRanks: a rank would have no full batch.
        RanksDiffer: of another network, number of samples, batch or strategy.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if samples // batch < self.size:
            raise TooManyRanks(self.size, samples, batch)
        shapes = [(name, tuple(tensor.shape)) for name, tensor in model.state_dict().items()]
        self._agree("network, data, batch, seed or strategy", f"{shapes} {samples} {batch} {seed} {strategy}".encode())
        self.block = one_block([*model.parameters(), *_averaged_buffers(model)])
        if self.size > 1:
            with telling(self.rank, self.size):
                dist.broadcast(self.block, src=0)

    def add_up(self, numbers: Tensor) -> None:
        if self.size > 1:
            with telling(self.rank, self.size):
                dist.all_reduce(numbers)

    def check(self) -> None:
        self._agree("weights", self.block.cpu().numpy().tobytes())

    def _agree(self, what: str, data: bytes) -> None:
        """Raises RanksDiffer: the bytes of a rank are not those of rank 0."""
        if self.size == 1:
            return
        digest = torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.int64)
        all_digests = [torch.empty_like(digest) for _ in range(self.size)]
        with telling(self.rank, self.size):
            dist.all_gather(all_digests, digest)
        for rank, other in enumerate(all_digests):
            if not torch.equal(other, all_digests[0]):
                raise RanksDiffer(rank, what)


class DDP(Shared):
    """Gradients averaged at every step, by one allreduce: `size` ranks are one with `size` times the batch."""

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        parameters = list(model.parameters())
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.gradients = one_block([parameter.grad for parameter in parameters if parameter.grad is not None])
        self._buffers = self.block[len(self.gradients) :]

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = torch.randperm(self.samples, generator=self.order)  # the same on all ranks
        steps = torch.split(order, self.batch * self.size)
        parts = [torch.tensor_split(picked, self.size)[self.rank] for picked in steps]
        return [(part, len(part) / len(picked)) for part, picked in zip(parts, steps, strict=True)]

    def clear_gradients(self) -> None:
        self.gradients.zero_()

    def combine_gradients(self, share: float) -> None:
        self.gradients.mul_(share)
        self.add_up(self.gradients)

    def combine_weights(self, step: int, steps: int) -> None:
        if step == steps and len(self._buffers):  # running means of normalisation layers; the weights are the same
            self.add_up(self._buffers)
            self._buffers.div_(self.size)


class LocalSGD(Shared):
    """Each rank steps alone on its own share; weights are averaged by one allreduce `syncs_per_epoch` times an epoch.

    Moments of the optimizer stay each rank's own. With more synchronisations than steps there is one after each step.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.order.manual_seed((seed + self.rank) % 2**63)
        self.share = torch.arange(samples)[self.rank :: self.size]  # neighbours in time are spread over the ranks
        self.syncs = min(strategy.syncs_per_epoch, -(-(samples // self.size) // batch))

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = torch.randperm(len(self.share), generator=self.order)
        return [(picked, 1.0) for picked in torch.split(self.share[order], self.batch)]

    def combine_weights(self, step: int, steps: int) -> None:
        if step * self.syncs // steps > (step - 1) * self.syncs // steps:
            self.add_up(self.block)
            self.block.div_(self.size)


STRATEGIES = {"single": Single, "ddp": DDP, "local_sgd": LocalSGD}


def begin(model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> Single:
    """Prepare a model for a training; every rank calls it with the same arguments."""
    return STRATEGIES[strategy.name](model, samples, batch, seed, strategy)


@torch.no_grad()
def one_block(tensors: Sequence[Tensor]) -> Tensor:
    """Move tensors of one type and device into one contiguous block, of which each becomes a view.

    Returns: 1-d; each tensor begins at a multiple of 64 bytes, what lies between is 0.
    """
    sizes = [-(-tensor.numel() // ALIGNED) * ALIGNED for tensor in tensors]
    block = torch.zeros(sum(sizes), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, torch.split(block, sizes), strict=True):
        view = part[: tensor.numel()].view(tensor.shape)
        view.copy_(tensor)
        tensor.data = view
    return block


@contextmanager
def telling(rank: int, size: int) -> Iterator[None]:
    """Turn torch's error of a call that needs the other ranks into RankLost."""
    try:
        yield
    except RuntimeError as error:
        raise RankLost(rank, size, str(error).strip().splitlines()[0]) from error


def _averaged_buffers(model: Model) -> Iterator[Tensor]:
    return (buffer for buffer in model.buffers() if buffer.is_floating_point())
