"""A small network for tests on several ranks, and functions that ranks call by name; it draws no noise."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from steersman.models import Model
from steersman.models.fit import Record, fit, seeded

SAMPLES = 96


class Falling(Model):
    """One number that every step lowers alike."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))


def value(model: Falling, rows: Tensor) -> dict[str, Tensor]:
    """The number itself."""
    return {"loss": model.value + 0 * rows.sum()}


class Small(Model):
    """Eight numbers to one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 13), nn.Tanh(), nn.Linear(13, 1))


def squared(model: Small, rows: Tensor) -> dict[str, Tensor]:
    """Mean squared error of predicting the last column of (B, 9)."""
    return {"loss": ((model.layers(rows[:, :8]) - rows[:, 8:]) ** 2).mean()}


def rows(samples: int = SAMPLES) -> Tensor:
    """Draw (samples, 9) from a smooth function."""
    with seeded(5):
        x = torch.randn(samples, 8)
    return torch.cat([x, torch.sin(x.sum(dim=1, keepdim=True))], dim=1)


def fresh(seed: int = 0) -> Small:
    """Build a network from a seed."""
    with seeded(seed):
        return Small()


def train(
    *, batch: int, epochs: int = 3, samples: int = SAMPLES, strategy: str | None = None, note: str = "",
    rank_seeds: bool = False,
) -> Small:  # fmt: skip
    """Fit; with `note`, write the hash of the weights after every epoch to a file for each rank.

    With `rank_seeds` each rank begins with weights of its own.
    """
    rank = os.environ.get("RANK", os.environ.get("PMI_RANK", "0"))
    model = fresh(int(rank) if rank_seeds else 0)

    def report(record: Record) -> None:
        if note:
            with Path(f"{note}{rank}").open("a") as file:
                file.write(weights_hash(model) + "\n")

    return fit(model, rows(samples), squared, epochs=epochs, batch=batch, lr=0.01, strategy=strategy, report=report)


def train_each(*, words: list[str], batch: int, optimizer: str = "adam", samples: int = SAMPLES) -> Small:
    """Fit once with each strategy; the card has each one's weights (flat), its history, what it told, and hashes.

    `hashes`: of the weights after each epoch, for each rank.
    """
    card: dict[str, Any] = {}
    for word in words:
        model = fresh()
        hashes: list[str] = []

        def report(record: Record, model: Small = model, hashes: list[str] = hashes) -> None:
            hashes.append(weights_hash(model))

        fit(
            model, rows(samples), squared, epochs=3, batch=batch, lr=0.01, optimizer=optimizer, strategy=word,
            report=report,
        )  # fmt: skip
        everyone = [hashes]
        if dist.is_initialized():
            everyone = [[] for _ in range(dist.get_world_size())]
            dist.all_gather_object(everyone, hashes)
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()
        card[word] = {"weights": weights, "history": model.history, "told": model.card, "hashes": everyone}
    falling = fit(
        Falling(), rows(samples), value, epochs=1, batch=batch, lr=0.01, optimizer="sgd", strategy="hogwild"
    )  # fmt: skip
    model.card = card | {"fallen": falling.value.item()}
    return model


def train_and_die(*, batch: int, dying: int, **other: object) -> Small:
    """Fit, but one rank is killed after its first epoch."""

    def report(record: Record) -> None:
        if os.environ["RANK"] == str(dying):
            os.kill(os.getpid(), signal.SIGKILL)

    return fit(fresh(), rows(), squared, epochs=1000, batch=batch, lr=0.01, report=report)


def train_with_checkpoints(*, batch: int, epochs: int, folder: str, dying: int = -1) -> Small:
    """Fit; one rank is killed after the third epoch."""

    def report(record: Record) -> None:
        if os.environ["RANK"] == str(dying) and (Path(folder) / "epoch-000003").exists():
            os.kill(os.getpid(), signal.SIGKILL)

    return fit(fresh(), rows(), squared, epochs=epochs, batch=batch, lr=0.01, checkpoint=folder, report=report)


def train_on_less(*, batch: int) -> Small:
    """Fit, each rank on another number of samples."""
    return train(batch=batch, samples=SAMPLES - int(os.environ["RANK"]))


def train_too_much(*, batch: int) -> Small:
    """Fit, but one rank asks for a petabyte."""

    def loss(model: Small, rows: Tensor) -> dict[str, Tensor]:
        more = torch.empty(2**50).sum() if os.environ["RANK"] == "1" else 0
        return {"loss": squared(model, rows)["loss"] + more}

    return fit(fresh(), rows(), loss, epochs=3, batch=batch, lr=0.01)


def weights_hash(model: Model) -> str:
    """Hash every weight."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
