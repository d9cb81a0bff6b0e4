"""What two ranks do that meet again and again, each time something else goes wrong: `python -m ... FILE PORT PORT ...`.

Each writes what it was told of each fault, as JSON, into FILE0 or FILE1.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from steersman.models.fitting.fit import Record, fit
from steersman.models.fitting.schedule import Schedule
from steersman.models.ranks import launch as ranks
from steersman.models.ranks.launch import Membership, joined
from steersman.models.ranks.strategy import used
from steersman.system.errors import BadValue, EngineError
from tests.models.mean_model import SAMPLES, Small, fresh, rows, squared, train

TIMEOUT_S = 60.0
OTHER_VERSION = "other version"
SHARING = ("ddp", "zero", "local_sgd", "hogwild", "async(max_staleness=0)", "async(max_staleness=3)")


def too_few_batches(rank: int) -> None:
    train(batch=60)


def batches_that_grow(rank: int) -> None:
    """Of 12, 24 and 48 samples, of which there are two; then of all 96."""
    growing = Schedule(double_every=1)
    fit(fresh(), rows(), squared, epochs=3, batch=12, lr=0.01, schedule=growing)
    fit(fresh(), rows(), squared, epochs=4, batch=12, lr=0.01, schedule=growing)


def other_data(rank: int) -> None:
    """Each rank has another number of samples."""
    train(batch=8, samples=SAMPLES - rank)


def other_rows(rank: int) -> None:
    """As many, in an order of its own."""
    fit(fresh(), rows().roll(rank, 0), squared, epochs=3, batch=8, lr=0.01)


def no_memory(rank: int) -> None:
    """The second rank asks for a petabyte."""

    def loss(model: Small, batch: Tensor) -> dict[str, Tensor]:
        more = torch.empty(2**50).sum() if rank == 1 else 0
        return {"loss": squared(model, batch)["loss"] + more}

    fit(fresh(), rows(), loss, epochs=3, batch=8, lr=0.01)


def not_a_number(rank: int) -> None:
    """One sample of 96, which one rank meets."""
    data = rows()
    data[7, 3] = torch.nan
    fit(fresh(), data, squared, epochs=3, batch=8, lr=0.01)


class Damaged:
    """Rows of which the second rank cannot use some, as it finds while it trains."""

    shape = (SAMPLES, 9)

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __len__(self) -> int:
        return SAMPLES

    def order(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows

    def read(self, numbers: Tensor) -> Tensor:
        if self._rank == 1 and 89 in numbers:
            raise BadValue("shape", (4096, 9), "found NaN")
        return rows()[numbers]


def unusable(rank: int) -> None:
    fit(fresh(), Damaged(rank), squared, epochs=3, batch=8, lr=0.01)


def own_mistake(rank: int) -> None:
    """The train function's, after an epoch of one rank."""

    def report(record: Record) -> None:
        if rank == 1:
            raise KeyError("energy")

    fit(fresh(), rows(), squared, epochs=3, batch=8, lr=0.01, report=report)


FAULTS: dict[str, tuple[str, Callable[[int], object]]] = {
    "too few batches": ("ddp", too_few_batches),
    "batches that grow": ("ddp", batches_that_grow),
    "other data": ("ddp", other_data),
    "other rows": ("ddp", other_rows),
    "no data": ("ddp", lambda _: fit(fresh(), rows(0), squared, epochs=3, batch=8, lr=0.01)),
    "no memory": ("ddp", no_memory),
    **{f"NaN in {word}": (word, not_a_number) for word in SHARING},
    **{f"unusable in {word}": (word, unusable) for word in SHARING},
    **{f"mistake in {word}": (word, own_mistake) for word in SHARING},
    OTHER_VERSION: ("ddp", not_a_number),
}


def met(rank: int, name: str, port: int) -> str:
    """Join the other rank, do what goes wrong, and give what was told."""
    strategy, act = FAULTS[name]
    if name == OTHER_VERSION:
        ranks._versions = lambda: f"steersman 99.{rank}"
    try:
        with joined(Membership(rank, 2, rank, "127.0.0.1", port, False), TIMEOUT_S), used(strategy):
            act(rank)
    except (EngineError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    torch.set_num_threads(1)
    file, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
    train(batch=8)  # the imports of a first step keep gloo's sockets open after an error in it, until the process ends
    rank = 1 if os.fork() == 0 else 0  # one import of torch for both
    told = {name: met(rank, name, port) for name, port in zip(FAULTS, ports, strict=True)}
    Path(f"{file}{rank}").write_text(json.dumps(told))
    if rank == 0:
        os.wait()
