"""Model, data -> fitted model: the one training loop of every network here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from steersman.models import device
from steersman.models.errors import TrainingDiverged, at_least
from steersman.models.fitting import compiled as compiling
from steersman.models.fitting import memory
from steersman.models.fitting.checkpoint import Checkpoints
from steersman.models.fitting.input import RowSource, fed
from steersman.models.fitting.profile import Profile
from steersman.models.fitting.reservoir import SHARED_BY, Draws, Reservoir
from steersman.models.fitting.schedule import CONSTANT, Schedule
from steersman.models.model import Model
from steersman.models.ranks import strategy as strategies
from steersman.models.ranks.begin import begin
from steersman.models.ranks.single import Single
from steersman.models.steps.stepper import Stepper
from steersman.system.errors import BadValue, UnknownName

ModelT = TypeVar("ModelT", bound=Model)
LOOKED_AT = 64  # rows by which ranks compare their data
Loss = Callable[..., dict[str, Tensor]]  # of a model and batches; scalars, means over these; "loss" is the one to lower
Record = dict[str, float]
Listener = Callable[[int, int, Record], object]  # epochs done, of how many, and the record of the last one

# A campaign reports how far its training is, whatever the train function does with the reports of fit().
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let a listener hear of each epoch of every fit() inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def fit(
    model: ModelT,
    data: Tensor | np.ndarray | RowSource | tuple[Tensor, ...],
    loss: Loss,
    *,
    epochs: int,
    batch: int,
    lr: float,
    seed: int = 0,
    optimizer: str = "adam",
    schedule: Schedule = CONSTANT,
    precision: str = "fp32",
    compiled: str = "no",
    strategy: str | None = None,
    checkpoint: str | Path | None = None,
    reservoir: Reservoir | None = None,
    report: Callable[[Record], object] | None = None,
) -> ModelT:
    """Lower a loss on shuffled batches, on one process or on several ranks that make the same call.

    The same model, data, settings and seed give the same weights, bit for bit, on one thread of one machine.

    Args:
        model: changed in place, on the device where it is.
        data: (n, ...) of any type, n >= 1, the same on every rank; moved to the model's device batch by batch, so
            packed data stay packed. Rows are read batch by batch, one ahead, see input.py. Several tensors, inputs and
            targets say, are of the same n samples.
        loss: of the model on a batch of the data, of each of several in their order.
        epochs: passes over the data, >= 1.
        batch, lr: samples per step of each rank, >= 1, and rate of the optimizer, >= 0; at the beginning.
        seed: of the shuffling, and of the noise that the model draws, which differs between ranks.
        optimizer: "adam", "sgd" (momentum 0.9), "lars" or "larc".
        schedule: linear scaling with warm-up, and growing batches.
        precision: "fp32", "tf32", "bf16", or on a GPU "fp16", see `Precision`.
        compiled: "no", "yes" (torch.compile), or on a CUDA device "graphs", see compiled.py.
        strategy: see `Strategy`; None takes the one that @wf.train names, else "single".
        checkpoint: a folder, on a file system that all ranks see, for the state of the training after each epoch; one
            that is there is gone on from, bit for bit on one process. None: none, but in a campaign one of its own.
        reservoir: how samples are drawn that go on arriving; the fit goes on where the one stopped that made the model,
            its optimizer too, and an epoch is the reservoir's `steps`. Ends early when nothing is left to draw. For one
            process and "ddp". None: an epoch is a pass over the data.
        report: called with each epoch's record.
    Returns: the model, in eval mode; its `history` holds per epoch the mean of each term over all ranks, `seconds`, and
        where they went, see `Profile`; its card says in which `precision` was computed, and of a reservoir how many
        samples, and `different` ones, were `drawn` so far.
    Raises:
        BadValue: there is none, a reservoir is of other data, no epochs, an empty batch, a rate below 0.
        UnknownName: of optimizer, precision, compiled or strategy.
        TrainingDiverged: the loss is no longer finite.
        OutOfMemory: a batch does not fit.
        DamagedFile: the checkpoint is of another training.
        TooManyRanks, EngineError, RankLost: see there.
    """
    if isinstance(data, np.ndarray):
        data = torch.from_numpy(data)
    if isinstance(data, Tensor):
        data = (data,)
    first = data[0] if isinstance(data, tuple) else data
    if (samples := len(first)) == 0:
        raise BadValue("shape", tuple(first.shape), "there is nothing to train on")
    if isinstance(data, tuple) and any(len(each) != samples for each in data):
        raise BadValue(
            "shape", tuple(first.shape), f"others have {[len(each) for each in data]} samples, not {samples}"
        )
    at_least(1, epochs=epochs, batch=batch)
    at_least(0, lr=lr)
    compiled_loss = compiling.compiled(loss, compiled, model.device)
    most = schedule.batch_at(epochs - 1, batch)

    def stepper_of(network: Model) -> Stepper:
        return Stepper(network, ranks.optimizer, optimizer, precision, lambda now: lr * schedule.factor_at(now, batch))

    settings = {"samples": samples, "seed": seed, "optimizer": optimizer, "lr": lr, "schedule": asdict(schedule),
                "data": hashlib.sha256(_some_rows(data)).hexdigest()[:16], "model": model.config,
                "precision": precision}  # fmt: skip
    checkpoints = Checkpoints(checkpoint, settings)
    model.history = []
    checkpoints.load_weights(model)
    draws = Draws(reservoir, samples, seed, optimizer, model.stream) if reservoir else None
    way = strategies.chosen(strategy)
    if draws is not None and way.name not in SHARED_BY:
        raise UnknownName("strategy with a reservoir", way.name, SHARED_BY)
    with closing(begin(model, samples, most, seed, way)) as ranks:
        if ranks.size > 1:
            ranks.agree("sample of the data", _some_rows(data))
        stepper = ranks.serve(stepper_of)
        if draws is not None:
            draws.begin(ranks, stepper)
        elif not isinstance(data, tuple):
            ranks.order_of = data.order
        with seeded(seed + ranks.rank + (draws.drawn if draws else 0)), stepper.precision.set():
            for epoch in range(checkpoints.resume(ranks, stepper, seed + ranks.rank), epochs):
                if draws is not None and not draws.left.any():
                    break
                ranks.batch = schedule.batch_at(epoch, batch)
                with memory.watched(ranks.batch):
                    record = _epoch(model, data, compiled_loss, stepper, ranks, epoch)
                if not math.isfinite(record["loss"]):
                    raise TrainingDiverged(epoch, record["loss"], lr)
                model.history.append(record)
                model.stream = draws.state() if draws else {}
                checkpoints.save(model, ranks, stepper)
                if report is not None:
                    report(record)
                if (listener := _listener.get()) is not None:
                    listener(len(model.history), epochs, record)
        ranks.check()
        model.card |= {"precision": stepper.precision.used} | ranks.facts(stepper)
        if draws is not None:
            model.stream = draws.state(stepper)
            model.card["reservoir"] = {"drawn": draws.drawn, "different": draws.different}
    return model.eval()


def _some_rows(data: tuple[Tensor, ...] | RowSource) -> bytes:
    """The bytes of a few rows: ranks that read files in another order, say, have others."""
    if not isinstance(data, tuple):
        return _bytes(data.read(torch.tensor([0, len(data) - 1])))
    rows = torch.linspace(0, len(data[0]) - 1, LOOKED_AT).long()
    return b"".join(_bytes(each[rows]) for each in data)


def _bytes(rows: Tensor) -> bytes:
    return rows.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@torch.no_grad()
def evaluate(model: ModelT, data: Tensor, loss: Loss, *, batch: int = 4096) -> Record:
    """Measure the loss without training, e.g. on frames that were held out.

    Returns: the mean of each term over the data; the same every time, when the model draws no noise in eval mode.
    Raises: BadValue: there is none.
    """
    if len(data) == 0:
        raise BadValue("shape", tuple(data.shape), "there is nothing to measure on")
    total = Total()
    model.eval()
    for part in torch.split(data, batch):
        total.add(loss(model, part.to(model.device)), len(part))
    return total.mean()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from a seed, and put the caller's back afterwards."""
    with device.forked():
        device.seed(seed)
        yield


class Total:
    """Means of a loss's terms, batch by batch; added up at the end, since each look at one stops a GPU."""

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._terms: dict[str, list[Tensor]] = {}

    def add(self, terms: dict[str, Tensor], samples: int) -> None:
        """Count a batch's means."""
        self._samples.append(samples)
        for name, value in terms.items():
            self._terms.setdefault(name, []).append(value.detach())

    def mean(self, ranks: Single | None = None) -> Record:
        """Give the mean of each term per sample, over what all ranks have counted."""
        samples = torch.tensor(self._samples, dtype=torch.float64)
        sums = [torch.stack(values).cpu().double() @ samples for values in self._terms.values()]
        numbers = torch.stack([*sums, samples.sum()])
        if ranks is not None:
            ranks.add_up(numbers)
        return dict(zip(self._terms, (numbers[:-1] / numbers[-1]).tolist(), strict=True))


def _epoch(
    model: ModelT, data: tuple[Tensor, ...] | RowSource, loss: Loss, stepper: Stepper, ranks: Single, epoch: int
) -> Record:
    profile, total = Profile(model.device), Total()
    model.train()  # a report may have evaluated it
    steps = ranks.batches()
    parts = fed(data, [picked for picked, _ in steps], model.device)
    for step, ((picked, share), part) in enumerate(zip(steps, parts, strict=True)):
        profile.lap("IpUpdateTime")
        ranks.fetch_weights()
        profile.lap("SyncTime")
        ranks.begin_step(share)
        if len(picked):
            with stepper.precision.casting():
                terms = loss(model, *part)
            total.add(terms, len(picked))
            profile.lap("FwdTime")
            stepper.precision.backward(terms["loss"])
            profile.lap("BwdTime")
        ranks.combine_gradients()
        profile.lap("SyncTime")
        ranks.change_weights(stepper, epoch + step / len(steps))
        profile.lap("WtUpdateTime")
        ranks.combine_weights(step + 1, len(steps))
        profile.lap("SyncTime")
    means = total.mean(ranks)
    profile.lap("SyncTime")
    return means | profile.seconds()
