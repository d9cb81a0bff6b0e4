"""A collective variable of mlcolvar says the same as a model of a run, which needs no mlcolvar."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman import models
from steersman.models import Model
from steersman.models.networks.dense import through
from steersman.system.errors import BadInput

MISSING = importlib.util.find_spec("mlcolvar") is None  # importing it takes seconds
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING, reason="pip install --no-deps mlcolvar lightning KDEpy"),
    pytest.mark.filterwarnings("ignore"),  # of lightning and mlcolvar
]


def data(n: int = 200) -> torch.Tensor:
    """(n, 4) rows that change slowly, far from the origin."""
    rng = np.random.default_rng(0)
    return torch.from_numpy((30 + np.cumsum(rng.normal(size=(n, 4)), axis=0)).astype(np.float32))


def trained(cv: Any, dataset: Any) -> Any:
    """A variable that its own trainer has fitted."""
    import lightning
    from mlcolvar.data import DictModule

    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "num_sanity_val_steps")
    lightning.Trainer(max_epochs=2, accelerator="cpu", **dict.fromkeys(off, False)).fit(cv, DictModule(dataset))
    return cv


def deep_tica(**options: Any) -> Any:
    from mlcolvar.cvs import DeepTICA
    from mlcolvar.utils.timelagged import create_timelagged_dataset

    torch.manual_seed(1)
    layers = [4, 8, 6, 3]
    return trained(DeepTICA(layers, n_cvs=2, options={"nn": options}), create_timelagged_dataset(data(), lag_time=1))


def autoencoder() -> Any:
    from mlcolvar.cvs import AutoEncoderCV
    from mlcolvar.data import DictDataset

    torch.manual_seed(2)
    options = {"encoder": {"activation": "shifted_softplus"}, "decoder": {"activation": "elu"}}
    return trained(AutoEncoderCV([4, 8, 2], options=options), DictDataset({"data": data()}))


def committor() -> Any:
    from mlcolvar.cvs import Committor
    from mlcolvar.data import DictDataset

    torch.manual_seed(3)
    options = {"nn": {"activation": ["tanh", "custom_sigmoid", None]}, "sigmoid": {"p": 2}}
    cv = Committor([4, 8, 6, 1], atomic_masses=torch.ones(2), n_dim=2, alpha=0.1, options=options)
    labels = torch.arange(200.0) // 50
    return trained(cv, DictDataset({"data": data() - 30, "labels": labels, "weights": torch.ones(200)}))


CASES: dict[str, Callable[[], Any]] = {
    "DeepTICA": lambda: deep_tica(activation="tanh"),
    "DeepTICA of relu, dropout and batches": lambda: deep_tica(dropout=0.2, batchnorm=True),
    "autoencoder": autoencoder,
    "committor": committor,
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_values_and_gradients_are_those_of_mlcolvar(make: Callable[[], Any], tmp_path: Path) -> None:
    """To 1e-6 of the largest of its single precision, to 1e-10 of its double, after a save and a load."""
    cv, x = make(), data(30)
    before = {name: each.clone() for name, each in cv.state_dict().items()}
    models.from_mlcolvar(cv).save(tmp_path)
    model = Model.load(tmp_path)
    assert cv.training
    assert all(torch.equal(each, before[name]) for name, each in cv.state_dict().items())
    for share, theirs in ((1e-6, cv.eval()), (1e-10, cv.double())):
        at = x.to(next(theirs.parameters()).dtype).requires_grad_()
        ours = at.detach().clone().requires_grad_()
        expected, values = theirs(at), model(ours)
        assert values.dtype == at.dtype
        assert (values - expected).abs().max() <= share * expected.abs().max()
        gradient, expected_gradient = (
            torch.autograd.grad(z.sum(), each)[0] for z, each in ((values, ours), (expected, at))
        )
        assert (gradient - expected_gradient).abs().max() <= 10 * share * expected_gradient.abs().max()
    encoded = model.encode(x.numpy())  # type: ignore[operator]
    assert np.abs(encoded - cv(x.double()).detach().numpy()).max() <= 1e-10 * np.abs(encoded).max()
    if hasattr(cv, "decoder"):
        rebuilt = cv.encode_decode(x.double()).detach().numpy()
        assert np.allclose(model.decode(encoded), rebuilt, rtol=1e-10)  # type: ignore[operator]
    else:
        with pytest.raises(BadInput):
            model.decode(encoded)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["DeepTICA", "committor"])
def test_a_simulation_can_be_biased_along_it_where_it_is_made_of_tanh(name: str) -> None:
    model, x = models.from_mlcolvar(CASES[name]()), data(30).numpy() - 30
    assert np.allclose(through(model.dense_layers(), x), model.encode(x), rtol=1e-12, atol=1e-14)
    with pytest.raises(BadInput):
        models.from_mlcolvar(CASES["autoencoder"]()).dense_layers()


def test_what_is_no_chain_of_layers_is_refused_and_a_run_needs_no_mlcolvar(tmp_path: Path) -> None:
    """Also a class of one's own that computes something after mlcolvar's blocks, or other than its activation says."""
    from mlcolvar.core.transform.descriptors import PairwiseDistances
    from mlcolvar.cvs import AutoEncoderCV, DeepTICA

    class Squared(AutoEncoderCV):  # type: ignore[misc, unused-ignore]
        def forward_cv(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(super().forward_cv(x) ** 2)

    class Wrapped(torch.nn.Module):
        """Angles in degrees, put back into half a turn: linear near 0."""

        in_features = out_features = 4

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - 360 * torch.round(x / 360)

    wrapped = AutoEncoderCV([4, 8, 2])
    wrapped.preprocessing = Wrapped()
    steep, distances = AutoEncoderCV([4, 8, 2]), DeepTICA([6, 8, 2])
    steep.encoder.nn[1] = torch.nn.ELU(alpha=2.0)
    distances.preprocessing = PairwiseDistances(n_atoms=4, PBC=False, cell=[2.0, 2.0, 2.0], scaled_coords=False)
    refused = {"Squared": Squared([4, 8, 2]), "ELU": steep, "PairwiseDistances": distances, "str": "cv",
               "Wrapped": wrapped}  # fmt: skip
    for name, cv in {**refused, "Linear": torch.nn.Linear(4, 2)}.items():
        with pytest.raises(BadInput, match=name):
            models.from_mlcolvar(cv)
    models.from_mlcolvar(CASES["committor"]()).save(tmp_path)
    load = "import sys; sys.modules['mlcolvar'] = None; from steersman import models; models.Model.load(sys.argv[1])"
    subprocess.run([sys.executable, "-c", load, tmp_path], check=True)
