"""Model, data -> fitted model: the one training loop of every network here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

import torch
from torch import Tensor

from steersman.models.errors import TrainingDiverged, UnusableData
from steersman.models.model import Model

ModelT = TypeVar("ModelT", bound=Model)
Loss = Callable[[ModelT, Tensor], dict[str, Tensor]]  # scalars, means over the batch; "loss" is the one to lower
Record = dict[str, float]

CLIP = 5.0  # gradient norm: the first steps of a warm start on new data are the only ones that meet it


def fit(
    model: ModelT,
    data: Tensor,
    loss: Loss[ModelT],
    *,
    epochs: int,
    batch: int,
    lr: float,
    seed: int = 0,
    report: Callable[[Record], object] | None = None,
) -> ModelT:
    """Lower a loss by Adam on shuffled batches.

    The same model, data, settings and seed give the same weights, bit for bit, on one thread of one machine.

    Args:
        model: changed in place, on the device where it is.
        data: (n, ...) of any type, n >= 1; moved to the model's device batch by batch, so packed data stay packed.
        loss: of the model on a batch of the data.
        epochs: passes over the data, >= 1.
        batch: samples per step.
        lr: Adam's step size.
        seed: of the shuffling, and of the noise that the model draws.
        report: called with each epoch's record.
    Returns: the model, in eval mode; its `history` holds per epoch the mean of each term, and `seconds`.
    Raises:
        UnusableData: there is none.
        TrainingDiverged: the loss is no longer finite.
    """
    if len(data) == 0:
        raise UnusableData(tuple(data.shape), "there is nothing to train on")
    optimizer = torch.optim.Adam(model.parameters(), lr, fused=True)
    model.train().history = []
    with seeded(seed):
        for epoch in range(epochs):
            record = _epoch(model, data, loss, optimizer, batch)
            if not math.isfinite(record["loss"]):
                raise TrainingDiverged(epoch, record["loss"], lr)
            model.history.append(record)
            if report is not None:
                report(record)
    return model.eval()


@torch.no_grad()
def evaluate(model: ModelT, data: Tensor, loss: Loss[ModelT], *, batch: int = 4096) -> Record:
    """Measure the loss without training, e.g. on frames that were held out.

    Returns: the mean of each term over the data; the same every time, when the model draws no noise in eval mode.
    Raises: UnusableData: there is none.
    """
    if len(data) == 0:
        raise UnusableData(tuple(data.shape), "there is nothing to measure on")
    total = Total()
    model.eval()
    for part in torch.split(data, batch):
        total.add(loss(model, part.to(model.device)), len(part))
    return total.mean()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from a seed, and put the caller's back afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        yield


class Total:
    """Sums of a loss's terms; kept on the device, since reading one stops the pipeline of a GPU."""

    def __init__(self) -> None:
        self.samples = 0
        self._sums: dict[str, Tensor] = {}

    def add(self, terms: dict[str, Tensor], samples: int) -> None:
        """Count a batch's means."""
        self.samples += samples
        for name, value in terms.items():
            self._sums[name] = self._sums.get(name, torch.zeros((), device=value.device)) + value.detach() * samples

    def mean(self) -> Record:
        """Give the mean of each term per sample."""
        return {name: float(value) / self.samples for name, value in self._sums.items()}


def _epoch(model: ModelT, data: Tensor, loss: Loss[ModelT], optimizer: torch.optim.Optimizer, batch: int) -> Record:
    began, total = perf_counter(), Total()
    for picked in torch.split(torch.randperm(len(data)), batch):
        terms = loss(model, data[picked].to(model.device))
        optimizer.zero_grad()
        torch.autograd.backward(terms["loss"])
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        total.add(terms, len(picked))
    return {**total.mean(), "seconds": perf_counter() - began}
