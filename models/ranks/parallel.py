"""Ranks -> one model: which samples a rank takes, and what it exchanges with the others.

Over torch.distributed's default group where one was joined (see ranks.py), else one process with nobody to talk to.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from steersman.models.errors import ModelError, RankLost, RanksDiffer, TooManyRanks
from steersman.models.fitting import optimizers
from steersman.models.fitting.input import shuffled
from steersman.models.fitting.stepper import Stepper
from steersman.models.model import Model
from steersman.models.networks.block import averaged, gradient_block, one_block
from steersman.models.ranks.buckets import Buckets, Work
from steersman.models.ranks.strategy import Strategy


class Single:
    """One process; also the base of those that share.

    Args:
        samples: to train on.
        batch: samples per step of each rank.
        seed: of the order, a new one every epoch.
    Attributes:
        rank, size: of this process, and how many train together.
        own_moments: whether each rank's optimizer goes its own way.
        order_of: puts ascending rows in a random order; of streamed data in one in which reading is cheap.
    """

    rank, size = 0, 1
    own_moments = False

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        self.model, self.samples, self.batch = model, samples, batch
        self._parameters = list(model.parameters())  # to walk through the modules at every step takes 30 us
        self.order = torch.Generator().manual_seed(seed % 2**63)
        self.order_of: Callable[[Tensor, torch.Generator], Tensor] = shuffled

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        """Give an epoch's steps: the samples (at most `batch` indices), and their share of all ranks' in this step."""
        order = self.order_of(torch.arange(self.samples), self.order)
        return [(picked, 1.0) for picked in torch.split(order, self.batch)]

    def optimizer(self, name: str, parameters: list[nn.Parameter], lr: float) -> Optimizer:
        """Build what changes the weights."""
        return optimizers.optimizer(name, parameters, lr)

    def serve(self, make: Callable[[Model], Stepper]) -> Stepper:
        """Make what changes the model's weights; before the first step."""
        return make(self.model)

    def fetch_weights(self) -> None:
        """Before a step: see that the weights are those to start from."""

    def begin_step(self, share: float) -> None:
        """Clear the gradients; `share`: of this rank's samples among all of the step."""
        for parameter in self._parameters:
            parameter.grad = None

    def combine_gradients(self) -> None:
        """After the backward pass."""

    def change_weights(self, stepper: Stepper, epoch: float) -> None:
        """Take the step."""
        stepper.step(epoch)

    def combine_weights(self, step: int, steps: int) -> None:
        """After step `step` (from 1) of an epoch's `steps`."""

    def add_up(self, numbers: Tensor) -> None:
        """Sum over the ranks, in place."""

    def check(self) -> None:
        """See that all ranks ended with the same weights."""

    def agree(self, what: str, data: bytes) -> None:
        """Raises RanksDiffer: the bytes of a rank are not those of rank 0."""

    def keeper(self, stepper: Stepper) -> Stepper | None:
        """Give the one whose optimizer remembers anything here."""
        return stepper

    def exchanged(self) -> dict[str, Tensor]:
        """Give what is still on its way between ranks at the end of an epoch, for a checkpoint."""
        return {}

    def restore(self, exchanged: Mapping[str, Tensor]) -> None:
        """Take over what `exchanged` gave."""

    def told(self, stepper: Stepper) -> dict[str, Any]:
        """Give what the strategy has to say of the training, for the model's card."""
        return {}

    def close(self) -> None:
        """Let go of what ranks share, also after an error."""


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
        self.agree("network, data, batch, seed or strategy", f"{shapes} {samples} {batch} {seed} {strategy}".encode())
        self.block = one_block(averaged(model))
        if self.size > 1:
            with telling(self.rank, self.size):
                dist.broadcast(self.block, src=0)

    def add_up(self, numbers: Tensor) -> None:
        if self.size > 1:
            with telling(self.rank, self.size):
                dist.all_reduce(numbers)

    def check(self) -> None:
        self.agree("weights", self.block.cpu().numpy().tobytes())

    def agree(self, what: str, data: bytes) -> None:
        if self.size == 1:
            return
        digest = torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.int64)
        all_digests = [torch.empty_like(digest) for _ in range(self.size)]
        with telling(self.rank, self.size):
            dist.all_gather(all_digests, digest)
        for rank, other in enumerate(all_digests):
            if not torch.equal(other, all_digests[0]):
                raise RanksDiffer(rank, what)


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


class DDP(WithGradients):
    """Gradients averaged at every step: `size` ranks are one with `size` times the batch.

    They are exchanged while the backward pass goes on, in buckets, of which a small network has one. With a lag of 1 a
    step is taken with the gradients of the step before, the first with zeros, the last one's are dropped: the exchange
    has a whole step's time to happen beside the computation.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.lag = strategy.lag
        self.late, self._exchange = torch.zeros_like(self.gradients) if self.lag else None, None
        self._share = 1.0
        self._buckets = None
        if self.size > 1 and self.late is None:
            self._buckets = Buckets(self._parameters, self.gradients, self._send)

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = self.order_of(torch.arange(self.samples), self.order)  # the same on all ranks
        steps = torch.split(order, self.batch * self.size)
        parts = [torch.tensor_split(picked, self.size)[self.rank] for picked in steps]
        return [(part, len(part) / len(picked)) for part, picked in zip(parts, steps, strict=True)]

    def begin_step(self, share: float) -> None:
        super().begin_step(share)
        self._share = share
        if self._buckets is not None:
            self._buckets.begin()

    def combine_gradients(self) -> None:
        if self._buckets is not None:
            with telling(self.rank, self.size):
                self._buckets.end()
            return
        self.gradients.mul_(self._share)
        if self.late is not None:
            self._put_off(self.late)

    def _send(self, part: Tensor) -> Work:
        """Begin to sum a part of the gradients over the ranks, each weighted by its samples."""
        with telling(self.rank, self.size):
            work: Work = dist.all_reduce(part.mul_(self._share), async_op=True)
        return work

    def _put_off(self, late: Tensor) -> None:
        """Give the last step's gradients in place of this one's, which are exchanged until the next."""
        self._arrive()
        new = self.gradients.clone()
        self.gradients.copy_(late)
        self.late = new
        if self.size > 1:
            with telling(self.rank, self.size):
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
            with telling(self.rank, self.size):
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
        with telling(self.rank, self.size):
            stepper.step(epoch)

    def told(self, stepper: Stepper) -> dict[str, Any]:
        held = torch.zeros(self.size, dtype=torch.int64)
        held[self.rank] = stepper.optimizer_bytes
        self.add_up(held)
        return {"optimizer_bytes": held.tolist()}


class OwnSteps(Shared):
    """Each rank steps alone on its own share of the samples, in an order of its own."""

    own_moments = True

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self.order.manual_seed((seed + self.rank) % 2**63)
        self.share = torch.arange(samples)[self.rank :: self.size]  # neighbours in time are spread over the ranks

    def batches(self) -> Sequence[tuple[Tensor, float]]:
        order = self.order_of(self.share, self.order)
        return [(picked, 1.0) for picked in torch.split(order, self.batch)]


class LocalSGD(OwnSteps):
    """Weights are averaged by one allreduce `syncs_per_epoch` times an epoch.

    Moments of the optimizer stay each rank's own. With more synchronisations than steps there is one after each step.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self._syncs = strategy.syncs_per_epoch

    def combine_weights(self, step: int, steps: int) -> None:
        fewest = -(-(self.samples // self.size) // self.batch)  # of all ranks: each must take part in all
        syncs = min(self._syncs, fewest)
        if step * syncs // steps > (step - 1) * syncs // steps:
            self.add_up(self.block)
            self.block.div_(self.size)


def begin(model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> Single:
    """Prepare a model for a training; every rank calls it with the same arguments."""
    from steersman.models.ranks.hogwild import Hogwild  # these two build on this module
    from steersman.models.ranks.parameter_server import Async

    kinds = {"single": Single, "ddp": DDP, "zero": Zero, "local_sgd": LocalSGD, "hogwild": Hogwild, "async": Async}
    return kinds[strategy.name](model, samples, batch, seed, strategy)


@contextmanager
def telling(rank: int, size: int) -> Iterator[None]:
    """Turn torch's error of a call that needs the other ranks into RankLost."""
    try:
        yield
    except ModelError:
        raise
    except RuntimeError as error:
        raise RankLost(rank, size, str(error).strip().splitlines()[0]) from error
