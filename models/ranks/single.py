"""One process -> its batches and steps: what a training asks of whoever shares it, and the base of those who do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from steersman.models.model import Model
from steersman.models.ranks.strategy import Strategy
from steersman.models.steps import optimizers
from steersman.models.steps.stepper import Stepper


def parts(order: Tensor, size: int) -> list[Tensor]:
    """Divide samples into steps of `size`. The last may be smaller; one that is left over goes with those before it,
    for of a single sample a batch normalization has no spread."""
    batches = list(torch.split(order, size))
    if size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


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
        """Give an epoch's steps: the samples (`batch` indices), and their share of all ranks' in this step."""
        order = self.order_of(torch.arange(self.samples), self.order)
        return [(picked, 1.0) for picked in parts(order, self.batch)]

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
        """Raises EngineError: the bytes of a rank are not those of rank 0."""

    def keeper(self, stepper: Stepper) -> Stepper | None:
        """Give the one whose optimizer remembers anything here."""
        return stepper

    def exchanged(self) -> dict[str, Tensor]:
        """Give what is still on its way between ranks at the end of an epoch, for a checkpoint."""
        return {}

    def restore(self, exchanged: Mapping[str, Tensor]) -> None:
        """Take over what `exchanged` gave."""

    def facts(self, stepper: Stepper) -> dict[str, Any]:
        """Give what the strategy has to say of the training, for the model's card."""
        return {}

    def close(self) -> None:
        """Let go of what ranks share, also after an error."""


def shuffled(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Give rows (n,) in a random order."""
    return rows[torch.randperm(len(rows), generator=generator)]
