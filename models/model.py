"""A network and what is needed to build it again: saved as plain weights and a card, never as pickle."""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from steersman.models.errors import UnreadableModel
from steersman.system.files import replace_file

WEIGHTS, CARD = "weights.safetensors", "model.json"


class Model(nn.Module):
    """Base of every network that a workflow trains.

    A subclass hands its constructor's arguments up: `super().__init__(size=size, latent=latent)`.

    Attributes:
        config: the constructor's arguments; plain JSON values.
        history: one record per epoch of the fit that made these weights.
        card: what else is to be known of these weights (data window, metrics, version); plain JSON values.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = config
        self.history: list[dict[str, float]] = []
        self.card: dict[str, Any] = {}

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def fits(self, other: Model) -> bool:
        """Whether the other model's weights can be taken over: same class, same shapes."""
        return type(self) is type(other) and self._shapes() == other._shapes()

    def save(self, directory: str | Path) -> None:
        """Write weights.safetensors and model.json (class, config, hash of the weights, history, card).

        The card is written last: a directory with a card is whole.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        replace_file(folder / WEIGHTS, save(weights))  # save_file() would make it the owner's alone
        (folder / CARD).write_text(json.dumps(self._described(sha256(folder / WEIGHTS)), indent=2) + "\n")

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a model that `save` wrote; in eval mode, on the CPU.

        Raises: UnreadableModel: no model there, weights that are not those saved, or another class than asked for.
        """
        folder = Path(directory)
        described = _read_card(folder)
        kind = _class_of(folder, described)
        if not issubclass(kind, cls):
            raise UnreadableModel(str(folder), f"holds a {kind.__qualname__}, not a {cls.__qualname__}")
        weights = _read_weights(folder, described["sha256"])
        try:
            model = kind(**described["config"])
            model.load_state_dict(weights)
        except (TypeError, RuntimeError) as misfit:
            raise UnreadableModel(
                str(folder), f"its config does not fit its class or its weights ({misfit})"
            ) from misfit
        model.history, model.card = described["history"], described["card"]
        return model.eval()

    def _shapes(self) -> dict[str, torch.Size]:
        return {name: tensor.shape for name, tensor in self.state_dict().items()}

    def _described(self, digest: str) -> dict[str, Any]:
        return {
            "class": f"{type(self).__module__}:{type(self).__qualname__}",
            "config": self.config,
            "sha256": digest,
            "parameters": self.parameter_count,
            "history": self.history,
            "card": self.card,
        }


def sha256(path: Path) -> str:
    """Hash a file's bytes. Returns: 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads((folder / CARD).read_text())
    except (OSError, ValueError) as unreadable:
        raise UnreadableModel(str(folder), f"no readable {CARD} ({unreadable})") from unreadable
    missing = {"class", "config", "sha256", "history", "card"} - set(described)
    if missing:
        raise UnreadableModel(str(folder), f"{CARD} lacks {', '.join(sorted(missing))}")
    return described


def _class_of(folder: Path, described: dict[str, Any]) -> type[Model]:
    """Import the class that "module:qualname" names; only a Model is ever called."""
    module, _, name = str(described["class"]).partition(":")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as unknown:
        raise UnreadableModel(str(folder), f"its class {module}:{name} cannot be imported") from unknown
    if not (isinstance(kind, type) and issubclass(kind, Model)):
        raise UnreadableModel(str(folder), f"{module}:{name} is no Model")
    return kind


def _read_weights(folder: Path, digest: str) -> dict[str, torch.Tensor]:
    path = folder / WEIGHTS
    try:
        found = sha256(path)
        if found != digest:
            raise UnreadableModel(
                str(folder), f"{WEIGHTS} is not what was saved (sha256 {found[:12]}..., not {digest[:12]}...)"
            )
        return dict(load_file(path))
    except (OSError, SafetensorError) as unreadable:
        raise UnreadableModel(str(folder), f"no readable {WEIGHTS} ({unreadable})") from unreadable
