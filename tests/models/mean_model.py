"""A small network for tests on several ranks, and functions that ranks call by name; it draws no noise."""

from __future__ import annotations

import hashlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn

from steersman.models import Model, Reservoir
from steersman.models.fitting.fit import Record, fit, seeded
from steersman.models.ranks import ddp
from steersman.system.errors import EngineError

SAMPLES = 96


class Falling(Model):
    """One number that every step lowers alike."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))


def value(model: Falling, rows: Tensor) -> dict[str, Tensor]:
    """The number itself."""
    return {"loss": model.value + 0 * rows.sum()}


class Scaled(Model):
    """Its inputs times a number, of which half are dropped in training mode. A number that is `plain` is not saved."""

    def __init__(self, plain: bool = False) -> None:
        super().__init__(plain=plain)
        self.dropout = nn.Dropout(0.5)
        if plain:
            self.scale = torch.ones(())
        else:
            self.register_buffer("scale", torch.ones(()))

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """(n, d) float32."""
        return np.asarray(self.scale * self.dropout(torch.from_numpy(rows)))


class Small(Model):
    """Eight numbers to one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 13), nn.Tanh(), nn.Linear(13, 1))


def squared(model: Small, rows: Tensor) -> dict[str, Tensor]:
    """Mean squared error of predicting the last column of (B, 9)."""
    return {"loss": ((model.layers(rows[:, :8]) - rows[:, 8:]) ** 2).mean()}


def steep(model: Small, rows: Tensor) -> dict[str, Tensor]:
    """The same tenfold: its gradients overflow in fp16 until the scale of 65536 has been halved a few times."""
    return {"loss": 10 * squared(model, rows)["loss"]}


def rows(samples: int = SAMPLES) -> Tensor:
    """Draw (samples, 9) from a smooth function."""
    with seeded(5):
        x = torch.randn(samples, 8)
    return torch.cat([x, torch.sin(x.sum(dim=1, keepdim=True))], dim=1)


def fresh(seed: int = 0) -> Small:
    """Build a network from a seed."""
    with seeded(seed):
        return Small()


def train(*, batch: int, epochs: int = 3, samples: int = SAMPLES, strategy: str | None = None) -> Small:
    """Fit the same weights to the same rows."""
    return fit(fresh(), rows(samples), squared, epochs=epochs, batch=batch, lr=0.01, strategy=strategy)


def streamed(
    epochs: int,
    model: Small | None = None,
    *,
    batch: int = 16,
    data: Tensor | None = None,
    ids: np.ndarray | None = None,
    uses: int = 8,
    steps: int = 5,
    **settings: Any,
) -> Small:
    """Fit, or go on with a fit, on a reservoir of the same rows."""
    reservoir = Reservoir(np.arange(SAMPLES) if ids is None else ids, uses, steps)
    model = fresh() if model is None else model
    data = rows() if data is None else data
    return fit(model, data, squared, epochs=epochs, batch=batch, lr=0.01, reservoir=reservoir, **settings)


def train_without_parent(*, folder: str) -> Small:
    """Fit without end; rank 0 kills who started the ranks when all are there."""
    rank, parent = os.environ["RANK"], psutil.Process(os.getppid()).ppid()  # ranks are forked by a server of its
    Path(folder, f"pid{rank}").write_text(str(os.getpid()))
    dist.barrier()
    if rank == "0":
        os.kill(parent, signal.SIGKILL)
    return train(batch=8, epochs=10**9)


def look_around(*, kill: str = "") -> Small:
    """Train nothing; on the card, where rank 0 is. The server of the ranks, or this rank, may be killed."""
    server = psutil.Process(os.getppid())
    if kill:
        print(os.getpid(), flush=True)
        os.kill(os.getppid() if kill == "server" else os.getpid(), signal.SIGKILL)
        signal.pause()
    model = Small()
    model.card["around"] = {
        "server": server.pid, "threads": server.num_threads(), "here": os.getcwd(), "variable": os.environ["VARIABLE"],
        "random": [random.random(), float(np.random.rand())],  # noqa: NPY002 (that of a process)
    }  # fmt: skip
    return model


def train_each(*, words: list[str], batch: int, samples: int = SAMPLES) -> Small:
    """Fit once with each strategy, on ranks that each begin with weights of their own; see `told` for the card."""
    ddp.BUCKET_BYTES = 1  # else the whole network is one
    card = {word: told(word, batch, samples) for word in words}
    if "hogwild" in words and "refused" not in card["hogwild"]:
        falling = fit(
            Falling(), rows(samples), value, epochs=1, batch=batch, lr=0.01, optimizer="sgd", strategy="hogwild"
        )  # fmt: skip
        card["fallen"] = {"value": falling.value.item()}
    if dist.is_initialized():
        going = streamed(2, streamed(2, strategy="ddp"), strategy="ddp")
        card["streamed"] = {"used": going.stream["used"].tolist(), "weights": flat(going)}
    model = Small()
    model.card = card
    return model


def told(word: str, batch: int, samples: int) -> dict[str, Any]:
    """Fit with a strategy, maybe "in fp16"; gives the weights (flat), the history, the card, and each rank's `hashes`
    of the weights after each epoch; where a strategy is refused, what the error said."""
    model = fresh(dist.get_rank() if dist.is_initialized() else 0)
    hashes: list[str] = []
    strategy, _, precision = word.partition(" in ")
    try:
        fit(
            model, rows(samples), steep if precision == "fp16" else squared, epochs=3, batch=batch, lr=0.01,
            strategy=strategy, precision=precision or "fp32", report=lambda _: hashes.append(weights_hash(model)),
        )  # fmt: skip
    except EngineError as error:
        if type(error) is not EngineError:
            raise
        return {"refused": str(error)}
    everyone = [hashes]
    if dist.is_initialized():
        everyone = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, hashes)
    return {"weights": flat(model), "history": model.history, "told": model.card, "hashes": everyone}


def flat(model: Model) -> list[float]:
    """Every weight."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()


def train_with_checkpoints(*, batch: int, epochs: int, folder: str, dying: int = -1) -> Small:
    """Fit; one rank is killed after the third epoch."""

    def report(record: Record) -> None:
        if os.environ["RANK"] == str(dying) and (Path(folder) / "epoch-000003").exists():
            os.kill(os.getpid(), signal.SIGKILL)

    return fit(fresh(), rows(), squared, epochs=epochs, batch=batch, lr=0.01, checkpoint=folder, report=report)


def weights_hash(model: Model) -> str:
    """Hash every weight."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
