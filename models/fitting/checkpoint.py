"""Training after an epoch -> folder, and back: also on another number of ranks.

FOLDER/epoch-0003/ has model/ (weights and card, see Model.save) and one file a rank, written by
torch.distributed.checkpoint: moments of the optimizer, random states, and in `about` the rest as JSON. Its .metadata is
written last, so a checkpoint that has one is whole.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from steersman.models import device
from steersman.models.errors import RanksFailed
from steersman.models.model import Model
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.single import Single
from steersman.models.steps.stepper import Stepper
from steersman.system.errors import DamagedFile

ModelT = TypeVar("ModelT", bound=Model)
SPARING = 10.0  # times as long as the last one took, until the next of those that nobody asked for
KEPT = 2  # the last ones: a file system that loses the newest leaves one

# A campaign's train function calls fit() without naming a folder: the engine does, around the call.
_folders: ContextVar[Iterator[Path] | None] = ContextVar("folders", default=None)


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Let every fit() inside that names no folder keep its checkpoints in this one: fit-0, fit-1 ... in their order."""
    token = _folders.set(folder / f"fit-{number}" for number in itertools.count())
    try:
        yield
    finally:
        _folders.reset(token)


def chosen(folder: str | Path | None) -> Path | None:
    """Give the folder that was named, or the next of those that `kept_in` says."""
    if folder is not None:
        return Path(folder)
    folders = _folders.get()
    return None if folders is None else next(folders)


def going_on(folder: Path, train: Callable[[], ModelT]) -> ModelT:
    """Train, and where ranks failed go on from their checkpoints, as long as each try comes further than the last.

    Raises: RanksFailed: a try came no further.
    """
    reached: list[Path] = []
    while True:
        try:
            return train()
        except RanksFailed:
            before, reached = reached, sorted(folder.glob("fit-*/epoch-*/.metadata"))
            if reached == before:
                raise


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: of all ranks the same; made when missing. None: the next of `kept_in`, or nothing is written or found.
        settings: what must be the same when a training goes on; plain JSON values.
    Raises: DamagedFile: those in the folder are of another training.
    """

    def __init__(self, folder: str | Path | None, settings: Mapping[str, Any]) -> None:
        self._folder, self._sparing = chosen(folder), folder is None
        self._ended = self._took_s = 0.0  # of the last one
        self._settings = json.loads(json.dumps(dict(settings)))
        self._found = newest(self._folder) if self._folder is not None else None

    def load_weights(self, model: Model) -> None:
        """Give a model the weights and history of the newest checkpoint; before it is shared between ranks."""
        if self._found is not None:
            saved = Model.load(self._found / "model", trusted=True)
            if not model.fits(saved):
                raise DamagedFile(f"{self._found}: the checkpoint of another network; use another folder")
            model.load_state_dict(saved.state_dict())
            model.history, model.stream = saved.history, saved.stream

    def resume(self, ranks: Single, stepper: Stepper, seed: int) -> int:
        """Restore everything else, inside `seeded`.

        On another number of ranks each goes on with a rank's moments and random states that was there; new ones draw
        from `seed`.
        Returns: epochs done.
        """
        ranks.agree("checkpoint", str(self._found).encode())
        if self._found is None:
            return 0
        about = _plain(_read(self._found, ranks, ["about"])["about"])
        if about["settings"] != self._settings:
            reason = f"the checkpoint of a training with {about['settings']}, not {self._settings}; use another folder"
            raise DamagedFile(f"{self._found}: {reason}")
        before = ranks.rank % about["ranks"]
        state = _read(self._found, ranks, [f"rank{before}/", "shared/"])
        own = {key.removeprefix(f"rank{before}/").removeprefix("shared/"): value for key, value in state.items()}
        ranks.order.set_state(own["order"])
        device.set_random_states(_below(own, "random/"))
        if ranks.rank >= about["ranks"]:
            device.seed(seed + (about["epochs"] << 32))
        if (keeper := ranks.keeper(stepper)) is not None:
            keeper.restore(_below(own, "moments/"))
        stepper.precision.set_scale(_plain(own["scale"]))
        ranks.restore(_below(own, "exchanged/"))
        return int(about["epochs"])

    def save(self, model: Model, ranks: Single, stepper: Stepper) -> None:
        """Write a checkpoint after the epochs of the model's history; every rank calls it.

        Those that nobody asked for are left out while they would take more than a tenth of the time.
        """
        if self._folder is None or (self._sparing and not self._worth_it(ranks)):
            return
        began = time.monotonic()
        path = self._folder / f"epoch-{len(model.history):06d}"
        if ranks.rank == 0:
            shutil.rmtree(path, ignore_errors=True)  # one that was never finished
            model.save(path / "model")
        keeper = ranks.keeper(stepper)
        whose = f"rank{ranks.rank}/" if ranks.own_moments else "shared/"
        state = {
            "about": _packed({"ranks": ranks.size, "epochs": len(model.history), "settings": self._settings}),
            f"rank{ranks.rank}/scale": _packed(stepper.precision.scale()),
            f"rank{ranks.rank}/order": ranks.order.get_state(),
            **{f"rank{ranks.rank}/random/{kind}": value for kind, value in device.random_states().items()},
            **{f"{whose}moments/{name}": value for name, value in (keeper.moments() if keeper else {}).items()},
            **{f"shared/exchanged/{name}": value for name, value in ranks.exchanged().items()},
        }
        _together("save", state, path, ranks)
        if ranks.rank == 0:
            for old in sorted(self._folder.glob("epoch-*"))[:-KEPT]:
                shutil.rmtree(old)
        self._ended = time.monotonic()
        self._took_s = self._ended - began

    def _worth_it(self, ranks: Single) -> bool:
        """Whether enough time has passed since the last one; all ranks find the same."""
        passed = torch.tensor([time.monotonic() - self._ended - SPARING * self._took_s], dtype=torch.float64)
        ranks.add_up(passed)
        return self._took_s == 0 or passed.item() > 0


def newest(folder: Path) -> Path | None:
    """Give the last checkpoint of a folder that is whole."""
    return max((path.parent for path in folder.glob("epoch-*/.metadata")), default=None)


def _read(path: Path, ranks: Single, beginnings: list[str]) -> dict[str, Tensor]:
    """Read the tensors whose names begin so; every rank calls it."""
    keys = _dcp().FileSystemReader(path).read_metadata().state_dict_metadata
    wanted = {key: each for key, each in keys.items() if key.startswith(tuple(beginnings))}
    state = {key: torch.empty(each.size, dtype=each.properties.dtype) for key, each in wanted.items()}
    _together("load", state, path, ranks)
    return state


def _together(what: str, state: dict[str, Tensor], path: Path, ranks: Single) -> None:
    """Save or load; every rank calls it."""
    with exchanging(ranks.rank, ranks.size), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # one process is no mistake
        getattr(_dcp(), what)(state, checkpoint_id=path)


def _packed(plain: Mapping[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(plain).encode()), dtype=torch.uint8)


def _plain(packed: Tensor) -> dict[str, Any]:
    return dict(json.loads(packed.numpy().tobytes()))


def _below(state: Mapping[str, Tensor], beginning: str) -> dict[str, Tensor]:
    return {key.removeprefix(beginning): value for key, value in state.items() if key.startswith(beginning)}


def _dcp() -> Any:
    """Import it when it is used: that takes a second."""
    return import_module("torch.distributed.checkpoint")
