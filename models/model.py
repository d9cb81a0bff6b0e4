"""A network and what is needed to build it again: saved as plain weights and a card, never as pickle."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from steersman.system import reading
from steersman.system.errors import BadInput, DamagedFile, EngineError, told
from steersman.system.files import replace_file
from steersman.system.registry import Others

HOLDS = {"class": str, "config": dict, "sha256": str, "history": list, "card": dict}  # a card
WEIGHTS, STREAM, CARD = "weights.safetensors", "stream.safetensors", "model.json"


class Model(nn.Module):
    """Base of every network that a workflow trains.

    A subclass hands its constructor's arguments up: `super().__init__(size=size, latent=latent)`.

    Attributes:
        config: the constructor's arguments; plain JSON values.
        history: one record per epoch of the fit that made these weights.
        card: what else is to be known of these weights (data window, metrics, version); plain JSON values.
        stream: where a fit on a reservoir stopped, see `Reservoir`; empty of others.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = config
        self.history: list[dict[str, float]] = []
        self.card: dict[str, Any] = {}
        self.stream: dict[str, torch.Tensor] = {}

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

    def warm_start(self, init: Model | None) -> bool:
        """Take over what another model has learnt, and where its fit stopped; `init` is left as it is.

        Returns: whether there is one that fits; the card says it, too, under "warm_start".
        """
        fits = self.card["warm_start"] = init is not None and self.fits(init)
        if init is not None and fits:
            self.load_state_dict(init.state_dict())
            self.stream = {name: value.clone() for name, value in init.stream.items()}
        return fits

    def dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The way from the inputs of `encode` to its coordinates as dense layers with tanh between them.

        What has them can be written out as forces of a simulation, and so be biased along.

        Returns: (out, in) float64 weights and (out,) float64 offsets of each layer.
        Raises: BadInput: this network is another kind.
        """
        raise BadInput(
            f"no simulation can be biased along the coordinate of a {type(self).__name__}: it has no `dense_layers()` "
            "to give to OpenMM; models.TICA, models.DeepTICA and models.PCA have"
        )

    def save(self, directory: str | Path) -> None:
        """Write weights.safetensors, model.json (class, config, hashes, history, card), and stream.safetensors if any.

        The card is written last: a directory with a card is whole.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        described = self._described(_write(folder / WEIGHTS, self.state_dict()))
        if self.stream:
            described["stream"] = _write(folder / STREAM, self.stream)
        replace_file(folder / CARD, json.dumps(described, indent=2, default=_number) + "\n", sync=True)

    @classmethod
    def load(cls, directory: str | Path, *, trusted: bool = False) -> Self:
        """Read a model that `save` wrote; in eval mode, on the CPU.

        Args:
            trusted: import the module that the card names. Else the class is one of Steersman's, or of a module that
                was imported before: to look at a stranger's model runs nothing of theirs.
        Raises: DamagedFile: no model there, or weights that are not those saved. BadInput: another class than asked
            for, or one that may not be imported.
        """
        folder = Path(directory)
        described = _read_card(folder)
        kind = _class_of(folder, described, trusted=trusted)
        if not issubclass(kind, cls):
            raise BadInput(f"{folder}: holds a {kind.__qualname__}, not a {cls.__qualname__}")
        weights = _read(folder, WEIGHTS, described["sha256"])
        try:
            if not trusted:
                _expect_fits(kind, described["config"], weights)
            model = kind(**described["config"])
            model.load_state_dict(weights)
        except Exception as misfit:  # whatever a class makes of arguments that nobody gave it
            raise DamagedFile(f"{folder}: its config does not fit its class or its weights ({misfit})") from misfit
        model.history, model.card = described["history"], described["card"]
        if "stream" in described:
            model.stream = _read(folder, STREAM, str(described["stream"]))
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


def _number(value: Any) -> Any:
    """A number of numpy's as one of Python's. Raises: TypeError: JSON has no such value."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"the config, history or card of a model has {value!r:.80}; JSON has no {type(value).__name__}")


def sha256(path: Path) -> str:
    """Hash a file's bytes. Returns: 64 hexadecimal digits."""
    with reading.opened(path, path.parent) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads(reading.read(folder / CARD, folder))
    except (OSError, ValueError, RecursionError, EngineError) as unreadable:
        raise DamagedFile(f"{folder}: no readable {CARD} ({unreadable})") from unreadable
    known = described if isinstance(described, dict) else {}
    if odd := [name for name, kind in HOLDS.items() if not isinstance(known.get(name), kind)]:
        raise DamagedFile(f"{folder}: {CARD} has no {odd[0]}, or one of another type")
    return described


def _class_of(folder: Path, described: dict[str, Any], *, trusted: bool) -> type[Model]:
    """The class that "module:qualname" names; only a Model is ever called."""
    module, _, name = str(described["class"]).partition(":")
    known = trusted or module in sys.modules or module.startswith(f"{__package__}.")
    if not known and described["class"] not in {each.value for each in Others("steersman.models").entries.values()}:
        raise BadInput(f"{folder}: its class is in {module}; import that first, or load it with trusted=True")
    try:
        kind = getattr(import_module(module), name)
    except (Exception, SystemExit) as unknown:  # "..x" is no name, and a module that is imported may raise anything
        where = "put the folder of its module on PYTHONPATH; of a run that is RUN/workflow"
        problem = f"its class {module}:{name} cannot be imported ({' '.join(told(unknown).split())}): {where}"
        raise BadInput(f"{folder}: {problem}") from unknown
    if not (isinstance(kind, type) and issubclass(kind, Model)):
        raise DamagedFile(f"{folder}: {module}:{name} is no Model")
    return kind


def _expect_fits(kind: type[Model], config: dict[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    """Raises: ValueError: a network of this config has other numbers than these. It is not made for that: it may take
    all of the time and memory that there is."""
    left = largest = sum(tensor.numel() for tensor in weights.values())

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal left
        left -= parameter.numel() if parameter is not None else 0
        if left < 0:
            raise ValueError(f"it has more than their {largest:,} numbers")

    ours = kind.__module__.startswith(f"{__package__}.")  # whose integers are all sizes
    if ours and (odd := [each for each in _integers(config) if each > largest]):
        raise ValueError(f"{odd[0]} for {largest:,} numbers")
    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):  # where tensors have shapes and nothing else
            shapes = kind(**config)._shapes()
    except ValueError:
        raise
    except Exception:  # it looks at numbers
        return
    finally:
        hook.remove()
    if shapes != {name: tensor.shape for name, tensor in weights.items()}:
        raise ValueError("other shapes")


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _integers(each)
    elif isinstance(value, int):
        yield value


def _write(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Save tensors, give the file's hash. One that stands under two names, as tied weights do, is saved twice."""
    kept, places = dict[str, torch.Tensor](), set[int]()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        kept[name] = own.clone() if place in places else own
        places.add(place)
    replace_file(path, save(kept), sync=True)  # save_file() would make it the owner's alone
    return sha256(path)


def _read(folder: Path, name: str, digest: str) -> dict[str, torch.Tensor]:
    path = folder / name
    try:
        actual = sha256(path)
        if actual != digest:
            raise DamagedFile(f"{folder}: {name} is not what was saved (sha256 {actual[:12]}..., not {digest[:12]}...)")
        return dict(load_file(path))
    except (OSError, SafetensorError, reading.OddFile) as unreadable:
        raise DamagedFile(f"{folder}: no readable {name} ({unreadable})") from unreadable
