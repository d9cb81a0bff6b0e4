"""A model that leaves computes the same elsewhere: in torch without our classes, in TorchScript, in onnxruntime."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman import models
from steersman.models import Model, portable
from steersman.models.networks.perceptron import ACTIVATIONS
from steersman.system.errors import BadInput, EngineError

# What reads files where there is no Steersman: inputs.npy -> outputs, and the gradient of their sum by the inputs.
READ = """
import sys
import numpy as np
for file in sys.argv[1:]:
    if file.endswith(".onnx"):
        import onnxruntime
        session = onnxruntime.InferenceSession(file)
        np.save(f"{file}.npy", session.run(None, {session.get_inputs()[0].name: np.load("inputs.npy")})[0])
        continue
    import torch
    x = torch.from_numpy(np.load("inputs.npy")).requires_grad_()
    y = torch.jit.load(file)(x) if file.endswith(".pt") else torch.export.load(file).module()(x)
    y = y if isinstance(y, torch.Tensor) else y[0]
    np.save(f"{file}.npy", y.detach().numpy())
    np.save(f"{file}.gradient.npy", torch.autograd.grad(y.sum(), x)[0].numpy())
assert "steersman" not in sys.modules
"""


def elsewhere(written: Sequence[Model], suffix: str, inputs: np.ndarray, folder: Path) -> list[list[np.ndarray]]:
    """What models that are in model<n><suffix> say of inputs; of torch's formats with the gradient."""
    np.save(folder / "inputs.npy", inputs)
    files = [f"model{i}{suffix}" for i in range(len(written))]
    subprocess.run([sys.executable, "-W", "ignore", "-P", "-c", READ, *files], cwd=folder, check=True)
    kinds = ["npy"] if suffix == ".onnx" else ["npy", "gradient.npy"]
    return [[np.load(folder / f"{file}.{kind}") for kind in kinds] for file in files]


def agree(one: np.ndarray, other: np.ndarray, share: float) -> bool:
    return one.shape == other.shape and bool(np.abs(one - other).max() <= share * np.abs(other).max())


def needs(suffix: str) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    """(300, 4, 3) far from the origin, where single precision alone loses what varies."""
    rng = np.random.default_rng(3)
    return np.asarray(500 + np.cumsum(rng.normal(size=(300, 12)), axis=0).reshape(300, 4, 3))


def coordinates(data: np.ndarray) -> list[Model]:
    pairs = np.stack([np.arange(290), np.arange(10, 300)], axis=1)
    deep = models.DeepTICA.fit(data, pairs, latent=2, epochs=2, hidden=8)
    return [models.PCA.fit(data, latent=2), models.TICA.fit(data, pairs, latent=2), deep]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".onnx"])
def test_coordinates_are_those_of_encode_and_can_be_followed(suffix: str, data: np.ndarray, tmp_path: Path) -> None:
    """Values and gradients to 1e-5 of the largest, in double precision to 1e-10; a .pt takes both."""
    needs(suffix)
    models_ = coordinates(data)
    for double, dtype in ((False, np.float32), (True, np.float64), (False, np.float64))[: 3 if suffix == ".pt" else 2]:
        for i, model in enumerate(models_):
            portable.write(model, tmp_path / f"model{i}{suffix}", double=double)
        inputs = data[:7].reshape(7, 12).astype(dtype)
        share = 1e-5 if dtype == np.float32 else 1e-10
        for model, found in zip(models_, elsewhere(models_, suffix, inputs, tmp_path), strict=True):
            z, by_hand = inputs.astype(float), np.eye(12)[None].repeat(7, axis=0)
            for n, (weights, offsets) in enumerate(model.dense_layers()):
                by_hand = by_hand * (1 - np.tanh(z) ** 2)[:, :, None] if n else by_hand
                z = (np.tanh(z) if n else z) @ weights.T + offsets
                by_hand = weights @ by_hand
            expected = [z, by_hand.sum(axis=1)]
            assert all(agree(one, other, share) for one, other in zip(found, expected, strict=False))
            assert all(each.dtype == dtype for each in found)
            encoded: Any = model.encode(inputs)  # type: ignore[operator]
            assert agree(z, encoded[0] if isinstance(encoded, tuple) else encoded, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".onnx"])
def test_a_network_leaves_by_its_forward(suffix: str, tmp_path: Path) -> None:
    """With several outputs, and for as many inputs at once as one likes; in double precision to 1e-10."""
    needs(suffix)
    cvae, relu = models.CVAE(10, latent=2).eval(), models.Perceptron(10, [[8, kind] for kind in ACTIVATIONS])
    for model, shape in ((cvae, (10, 10)), (relu, None)):
        for dtype, share in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
            if (suffix, model, dtype) == (".onnx", cvae, torch.float64):  # onnxruntime has no such convolution
                with pytest.raises(BadInput, match="Conv"):
                    portable.write(model, tmp_path / "model0.onnx", shape, double=True)
                continue
            portable.write(model, tmp_path / f"model0{suffix}", shape, double=dtype == torch.float64)
            inputs = torch.rand(5, *(shape or (10,)), dtype=dtype)
            found = elsewhere([model], suffix, inputs.numpy(), tmp_path)[0][0]
            with torch.no_grad():
                outputs = copy.deepcopy(model).to(torch.float64)(inputs.double())
            assert agree(found, (outputs if model is relu else outputs[0]).numpy(), share)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_slopes_are_those_of_torch(name: str) -> None:
    """Also at 0, where some have a kink, and far away; a Softplus of torch is straight from 20 on."""
    x = torch.tensor([-800.0, -30.0, -1.0, 0.0, 1e-9, 0.5, 19.0, 40.0, 800.0], dtype=torch.float64).requires_grad_()
    ours, theirs = ACTIVATIONS[name](x), getattr(torch.nn, name)()(x)
    slopes = (torch.autograd.grad(each.sum(), x)[0] for each in (ours, theirs))
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-15)
    torch.testing.assert_close(*slopes, rtol=1e-14, atol=1e-15)


class Untraceable(Model):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * float(np.asarray(x).sum())


def test_what_cannot_leave_is_refused_by_name_and_leaves_no_file(tmp_path: Path) -> None:
    refused: list[tuple[Model, str, Sequence[int] | None]] = [
        (models.CVAE(10), ".pt2", None), (Model(), ".pt", None), (Model(), ".pt", (3,)), (Untraceable(), ".pt2", (3,)),
        (models.PCA.fit(np.eye(3)), ".h5", None),
    ]  # fmt: skip
    for model, suffix, shape in refused:
        with pytest.raises(BadInput, match=type(model).__name__ if suffix != ".h5" else "suffix"):
            portable.write(model, tmp_path / f"model{suffix}", shape)
    with pytest.raises(EngineError, match="differs"):  # a tracer takes what numpy makes of its example for a constant
        portable.write(Untraceable(), tmp_path / "model.pt", (3,))
    assert list(tmp_path.iterdir()) == []
