"""Dense layers with any activation between them, in double precision: what a collective variable of mlcolvar is.

Axes: B batch, F inputs, Z coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from steersman.models.model import Model
from steersman.models.networks.dense import Layers
from steersman.models.networks.tica import rows
from steersman.system.errors import BadInput, told

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of torch, with its defaults
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Identity": torch.positive,
    # onnxruntime has these three in single precision only.
    "ELU": lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0))),
    "LeakyReLU": lambda x: torch.where(x > 0, x, 0.01 * x),
    "Softplus": lambda x: torch.where(x > 0, x, 0) + torch.log1p(torch.exp(torch.where(x > 0, -x, x))),
}
AGREES = 1e-9  # of the largest value: by so much a layer that was taken over may differ, in double precision
Step = tuple[np.ndarray, np.ndarray, str]  # (out, in) weights, (out,) offsets, the activation


class Perceptron(Model):
    """Coordinates of vectors by dense layers in double precision. `from_mlcolvar(cv)` makes one.

    Args:
        size: numbers of a row, F.
        layers: units and activation of each: [[24, "Tanh"], [2, "Identity"]]. The last has Z units.
        decoder: the same of the way back, if there is one.
    Source: Bonati, Trizio, Rizzi and Parrinello (2023), A unified framework for machine learning collective variables.
    """

    def __init__(self, size: int, layers: Sequence[Any], decoder: Sequence[Any] = ()) -> None:
        super().__init__(size=size, layers=layers, decoder=decoder)
        self.encoder = _linear(size, layers)
        self.decoder = _linear(layers[-1][0], decoder)

    @classmethod
    def of(cls, steps: Sequence[Step], back: Sequence[Step] = ()) -> Self:
        """One with these weights, and those of a decoder."""
        sizes, sizes_back = ([[len(offsets), kind] for _, offsets, kind in each] for each in (steps, back))
        model = cls(steps[0][0].shape[1], sizes, sizes_back)
        for layer, (weights, offsets, _) in zip((*model.encoder, *model.decoder), (*steps, *back), strict=True):
            layer.load_state_dict({"weight": torch.tensor(weights), "bias": torch.tensor(offsets)})
        return model.eval()

    @classmethod
    def of_tanh(cls, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> Self:
        """The way of another model's `dense_layers()`."""
        *inner, last = layers
        return cls.of([*((*each, "Tanh") for each in inner), (*last, "Identity")])

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, Z) coordinates of the same precision, computed in double."""
        return _through(self.encoder, self.config["layers"], x.flatten(1).double()).type_as(x)

    @torch.no_grad()
    def encode(self, data: np.ndarray) -> np.ndarray:
        """Coordinates of data (n, ...). Returns: (n, Z) float64. Raises: BadValue: rows of another size, or NaN."""
        x = torch.from_numpy(rows(data, self.config["size"])).to(self.device)
        return np.asarray(_through(self.encoder, self.config["layers"], x).cpu())

    @torch.no_grad()
    def decode(self, z: np.ndarray) -> np.ndarray:
        """Rows (n, F) float64 from coordinates (n, Z). Raises: BadInput: there is no way back."""
        if not len(self.decoder):
            raise BadInput("this network has no decoder; an autoencoder has")
        x = torch.from_numpy(rows(z, self.config["layers"][-1][0])).to(self.device)
        return np.asarray(_through(self.decoder, self.config["decoder"], x).cpu())

    def dense_layers(self) -> Layers:
        """As of `Model`; a sigmoid is (1 + tanh(x / 2)) / 2."""
        layers: Layers = []
        scale, shift = 1.0, 0.0  # of what comes out of the tanh before
        for (_, kind), linear in zip(self.config["layers"], self.encoder, strict=True):
            given, offsets = (each.cpu().numpy() for each in linear.state_dict().values())
            part = 0.5 if kind == "Sigmoid" else 1.0
            layers.append((part * scale * given, part * (offsets + shift * given.sum(axis=1))))
            scale, shift = (0.5, 0.5) if kind == "Sigmoid" else (1.0, 0.0)
        *inner, last = (kind for _, kind in self.config["layers"])
        if not {*inner} <= {"Tanh", "Sigmoid"} or last not in ("Tanh", "Sigmoid", "Identity"):
            return super().dense_layers()
        width = len(layers[-1][1])
        return layers if last == "Identity" else [*layers, (scale * np.eye(width), np.full(width, shift))]


def from_mlcolvar(cv: Any) -> Perceptron:
    """A trained DeepTICA, AutoEncoderCV, Committor, DeepLDA, DeepTDA or RegressionCV of mlcolvar as a model of a run.

    It is taken over in double precision, without dropout, and `cv` is left as it is. An autoencoder also gets `decode`.

    Raises: BadInput: a part of it is no dense layer, no activation of `Perceptron`, and not linear, such as distances
        of atoms: give those as inputs.
    """
    names = ["preprocessing", *getattr(cv, "BLOCKS", ()), "postprocessing"]
    parts = {name: part for name in names if (part := getattr(cv, name, None)) is not None}
    training = [each for each in cv.modules() if each.training] if isinstance(cv, nn.Module) else []
    try:
        for each in training:
            each.training = False
        with torch.enable_grad():
            decoder = parts.pop("decoder", None)
            steps = _steps(parts.values(), getattr(parts.get("preprocessing"), "in_features", cv.in_features))
            way_back = decoder is not None and not {"preprocessing", "postprocessing"} & {*parts}
            back = _steps([cv.get_decoder("norm_in" in parts)], cv.out_features) if way_back else []
            model = Perceptron.of(steps, back)
            weights, offsets, _ = steps[0]  # of which the inputs are such that no activation is flat
            x = (_drawn(len(offsets)) - torch.tensor(offsets)) @ torch.tensor(np.linalg.pinv(weights)).T
            _expect_same(type(cv).__name__, model(x), _call(cv, x))
    except BadInput:
        raise
    except Exception as error:  # whatever a stranger's class makes of it
        raise BadInput(f"a {type(cv).__name__} cannot be taken over from mlcolvar: {told(error)[:500]}") from error
    finally:
        for each in training:
            each.training = True
    return model


def _linear(size: int, layers: Sequence[Any]) -> nn.ModuleList:
    widths = [size, *(width for width, _ in layers)]
    return nn.ModuleList(nn.Linear(*each, dtype=torch.float64) for each in itertools.pairwise(widths))


def _through(linear: nn.ModuleList, layers: Sequence[Any], x: Tensor) -> Tensor:
    for layer, (_, kind) in zip(linear, layers, strict=True):
        x = ACTIVATIONS[kind](layer(x))
    return x


def _steps(parts: Any, size: int) -> list[Step]:
    """Modules, one after another -> weights. What is between two activations becomes one layer."""
    steps, weights, offsets = list[Step](), np.eye(size), np.zeros(size)
    for part in _leaves(parts):
        name, x = type(part).__name__, _drawn(len(offsets))
        zero = torch.zeros_like(x[:1])
        kind: str = {"Shifted_Softplus": "Softplus", "Custom_Sigmoid": "Sigmoid"}.get(name, name)
        if kind in ACTIVATIONS:
            activation, slope = ACTIVATIONS[kind], getattr(part, "p", 1.0) if kind == "Sigmoid" else 1.0
            shift = (_call(part, zero) - activation(zero))[0]
            expected = activation(slope * x) + shift
            steps.append((slope * weights, slope * offsets, kind))
            weights, offsets = np.eye(len(offsets)), shift.numpy()
        else:
            matrix, constant = jacrev(partial(_call, part))(zero)[0, :, 0], _call(part, zero)[0]
            expected = x @ matrix.T + constant
            weights, offsets = matrix.numpy() @ weights, matrix.numpy() @ offsets + constant.numpy()
        _expect_same(name, expected, _call(part, x))
    unchanged = steps and not offsets.any() and np.array_equal(weights, np.eye(len(offsets)))
    return steps if unchanged else [*steps, (weights, offsets, "Identity")]


def _leaves(parts: Any) -> Iterator[nn.Module]:
    for part in parts:
        inner = part if isinstance(part, nn.Sequential) else getattr(part, "nn", None)  # that of a FeedForward
        yield from _leaves(inner) if isinstance(inner, nn.Sequential) else [part]


def _drawn(width: int) -> Tensor:
    drawn = torch.randn(16, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return drawn * 10.0 ** torch.arange(-8, 8, dtype=torch.float64)[:, None].clamp(0, 4)


def _call(module: nn.Module, x: Tensor) -> Tensor:
    """What a module says in double precision; it stays as it is."""
    tensors = {name: each.detach().cpu().double() for name, each in module.state_dict(keep_vars=True).items()}
    outputs: Tensor = functional_call(module, tensors, (x.clone(),))
    return outputs


def _expect_same(name: str, ours: Tensor, theirs: Tensor) -> None:
    if ours.shape != theirs.shape or not ((ours - theirs).abs().amax(1) <= AGREES * theirs.abs().amax(1)).all():
        raise BadInput(f"{name} is neither linear nor one of {', '.join(ACTIVATIONS)}, in mlcolvar's order of blocks")
