"""A model that leaves computes the same elsewhere: in torch without our classes, in TorchScript, in onnxruntime."""

from __future__ import annotations

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
    """Values and gradients to 1e-5 of the largest; a .pt in double precision to 1e-10."""
    needs(suffix)
    models_ = coordinates(data)
    for i, model in enumerate(models_):
        portable.write(model, tmp_path / f"model{i}{suffix}")
    for dtype in (np.float32, np.float64) if suffix == ".pt" else (np.float32,):
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
            encoded: Any = model.encode(inputs)  # type: ignore[operator]
            assert agree(z, encoded[0] if isinstance(encoded, tuple) else encoded, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".onnx"])
def test_a_network_leaves_by_its_forward(suffix: str, tmp_path: Path) -> None:
    """With several outputs, and for as many inputs at once as one likes."""
    needs(suffix)
    model = models.CVAE(10, latent=2).eval()
    portable.write(model, tmp_path / f"model0{suffix}", (10, 10))
    inputs = np.random.default_rng(1).random((5, 10, 10), np.float32)
    found = elsewhere([model], suffix, inputs, tmp_path)[0][0]
    with torch.no_grad():
        assert agree(found, model(torch.from_numpy(inputs))[0].numpy(), 1e-5)


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
