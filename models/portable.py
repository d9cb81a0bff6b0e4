"""A model -> a file that other programs run: .pt2 of torch.export, .onnx, or .pt of TorchScript."""

from __future__ import annotations

import copy
import itertools
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models.model import Model
from steersman.models.networks.perceptron import Perceptron
from steersman.system.errors import BadInput, EngineError, MissingExtra, told

AGREES = {torch.float32: 1e-5, torch.float64: 1e-10}  # of an output's largest value: what was written may differ so
ROWS = 2, 3  # of the inputs on which it is traced, and compared: the first dimension may be of any size
Run = Callable[[Tensor], Sequence[Any]]


def write(model: Model, path: Path, shape: Sequence[int] | None = None, *, double: bool = False) -> None:
    """Write what a model computes; what was written is read again and compared, on inputs drawn from 0 to 1.

    Without a shape it is the way to its coordinates (`dense_layers`), else its `forward`. The first dimension of inputs
    may be of any size.

    Args:
        path: its suffix says the format. What is there is replaced.
        shape: of one input of `forward`, without that dimension.
        double: inputs and outputs are float64, else float32. Of coordinates a .pt takes both.
    Raises: BadInput: another suffix, or a model that cannot be written so. MissingExtra: onnx, and what reads it.
        EngineError: what was written computes something else.
    """
    if path.suffix not in FORMATS:
        raise BadInput(f"{path}: the suffix says the format; take one of {', '.join(FORMATS)}")
    module, shape = _module(model, shape)
    module, dtype = copy.deepcopy(module).cpu().eval(), torch.float64 if double else torch.float32
    traced, compared = (torch.rand(rows, *shape, dtype=dtype) for rows in ROWS)
    new = path.with_name(f".{path.stem}.new{path.suffix}")
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of formats that torch will leave, and of its own code
            try:
                module = module.double() if double else module
                expected = _several(module(compared))
                FORMATS[path.suffix][0](module, traced, new)
                outputs = FORMATS[path.suffix][1](new)(compared)
            except MissingExtra:
                raise
            except Exception as error:  # whatever a tracer meets
                name = type(model).__name__
                raise BadInput(f"a {name} cannot be written as {path.suffix}: {told(error)[:500]}") from error
        _compare(path, expected, outputs, AGREES[dtype])
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _module(model: Model, shape: Sequence[int] | None) -> tuple[nn.Module, Sequence[int]]:
    name, forwards = type(model).__name__, type(model).forward is not nn.Module.forward
    if shape is not None:
        if not forwards:
            raise BadInput(f"a {name} has no `forward` of tensors: leave the shape out, or write one")
        return model, shape
    if isinstance(model, Perceptron):
        return model, [model.config["size"]]
    try:
        layers = model.dense_layers()
    except BadInput:
        advice = "say the shape of one input of its `forward`" if forwards else "give it one of them"
        raise BadInput(f"a {name} has no `dense_layers()`{'' if forwards else ', nor `forward`'}: {advice}") from None
    return Perceptron.of_tanh(layers), layers[0][0].shape[1:]


def _several(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def _compare(path: Path, expected: Sequence[Tensor], outputs: Sequence[Any], agrees: float) -> None:
    for one, other in itertools.zip_longest(expected, outputs):
        if one is None or other is None or np.shape(one) != np.shape(other):
            raise EngineError(f"{path}: what was written gives other outputs than the model")
        apart, largest = np.abs(np.asarray(one) - np.asarray(other)).max(), np.abs(np.asarray(one)).max()
        if not apart <= agrees * largest:
            raise EngineError(f"{path}: what was written differs from the model by {apart:g}, of values of {largest:g}")


def _exported(module: nn.Module, x: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))


def _write_export(module: nn.Module, x: Tensor, path: Path) -> None:
    torch.export.save(_exported(module, x), path)


def _read_export(path: Path) -> Run:
    module = torch.export.load(path).module()
    return lambda x: _several(module(x))


def _write_script(module: nn.Module, x: Tensor, path: Path) -> None:
    torch.jit.save(torch.jit.trace(module, x), path)  # type: ignore[no-untyped-call]


def _read_script(path: Path) -> Run:
    module = torch.jit.load(path)  # type: ignore[no-untyped-call]
    return lambda x: _several(module(x))


def _write_onnx(module: nn.Module, x: Tensor, path: Path) -> None:
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise MissingExtra(missing.name or "onnx", "onnx") from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses what nobody needs
    program = torch.onnx.export(_exported(module, x), dynamo=True, verbose=False)
    assert program is not None
    program.save(path, external_data=False)


def _read_onnx(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {session.get_inputs()[0].name: x.numpy()})


FORMATS: dict[str, tuple[Callable[[nn.Module, Tensor, Path], None], Callable[[Path], Run]]] = {
    ".pt2": (_write_export, _read_export),
    ".onnx": (_write_onnx, _read_onnx),
    ".pt": (_write_script, _read_script),
}
