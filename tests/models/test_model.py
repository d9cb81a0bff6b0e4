"""A model on disk: what was saved comes back, and nothing else does."""

from __future__ import annotations

import json
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from steersman import models
from steersman.models import CVAE, Model
from steersman.system.errors import BadInput, DamagedFile

Chains = Callable[..., np.ndarray]


class Line(Model):
    """The smallest model of a user's own: y = a x + b."""

    def __init__(self, width: int) -> None:
        super().__init__(width=width)
        self.layer = nn.Linear(width, 1)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A directory with a model."""
    CVAE(6).save(tmp_path)
    return tmp_path


def edit(folder: Path, **changes: Any) -> None:
    """Change the card."""
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**card, **changes}))


def test_numbers_of_numpy_are_numbers_on_a_card(tmp_path: Path) -> None:
    model = Line(np.int64(3))  # type: ignore[arg-type]
    model.card = {"error": np.float32(0.5), "each": np.arange(2)}
    model.save(tmp_path)
    again = Line.load(tmp_path)
    assert (again.config, again.card) == ({"width": 3}, {"error": 0.5, "each": [0, 1]})
    model.card = {"error": {1, 2}}
    with pytest.raises(TypeError):
        model.save(tmp_path)


def test_weights_may_be_read_by_whom_the_card_may(saved: Path) -> None:
    """All files of a run have the mode that the user's umask says."""
    modes = {stat.S_IMODE(file.stat().st_mode) for file in saved.iterdir()}
    (saved / "usual").touch()
    assert modes == {stat.S_IMODE((saved / "usual").stat().st_mode)}


def test_a_saved_model_comes_back_bit_for_bit(tmp_path: Path, chains: Chains) -> None:
    """Class, configuration, weights, history and card; ready to score."""
    maps = chains(60, 9)
    model = CVAE.fit(maps, latent=2, epochs=1)
    model.card["window"] = [0, 60]
    model.save(tmp_path / "models" / "0001")
    again = Model.load(tmp_path / "models" / "0001")
    assert isinstance(again, CVAE)
    assert not again.training
    assert (again.config, again.history, again.card) == (model.config, model.history, model.card)
    assert all(np.array_equal(*pair) for pair in zip(again.encode(maps), model.encode(maps), strict=True))


def test_a_model_of_one_s_own_is_kept_the_same_way(tmp_path: Path) -> None:
    """Any subclass that hands its arguments up, found again by its module's name."""
    model = Line(4)
    model.save(tmp_path)
    again = Line.load(tmp_path)
    assert torch.equal(again.layer.weight, model.layer.weight)


class Tied(Line):
    """One tensor under two names, and a part of it: as of an autoencoder."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.back = self.layer.weight
        self.register_buffer("part", self.layer.weight.detach()[0])


def test_weights_that_stand_under_two_names_are_kept(tmp_path: Path) -> None:
    model = Tied(4)
    model.save(tmp_path)
    again = Tied.load(tmp_path)
    assert again.back is again.layer.weight
    assert {name: value.tolist() for name, value in again.state_dict().items()} == {
        name: value.tolist() for name, value in model.state_dict().items()
    }


def test_weights_that_were_changed_are_refused(saved: Path) -> None:
    """One flipped bit in the last number."""
    data = bytearray((saved / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (saved / "weights.safetensors").write_bytes(data)
    with pytest.raises(DamagedFile, match=r"weights\.safetensors"):
        Model.load(saved)


def test_where_a_stream_stopped_is_refused_when_it_was_changed(saved: Path) -> None:
    """Or is gone: the fit would begin to count anew."""
    model = Model.load(saved)
    model.stream = {"used": torch.arange(3)}
    model.save(saved)
    assert torch.equal(Model.load(saved).stream["used"], torch.arange(3))
    (saved / "stream.safetensors").write_bytes((saved / "stream.safetensors").read_bytes()[:-1])
    with pytest.raises(DamagedFile, match=r"stream\.safetensors"):
        Model.load(saved)
    (saved / "stream.safetensors").unlink()
    with pytest.raises(DamagedFile, match=r"no readable stream\.safetensors"):
        Model.load(saved)


def test_weights_that_are_cut_are_refused(saved: Path) -> None:
    """As a full disk leaves them."""
    data = (saved / "weights.safetensors").read_bytes()
    (saved / "weights.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedFile, match="what was saved"):
        Model.load(saved)


def test_a_directory_without_a_model_is_told(tmp_path: Path, saved: Path) -> None:
    """Nothing there, no weights, or a card that is no JSON."""
    with pytest.raises(DamagedFile, match=r"nowhere: .*model\.json"):
        Model.load(tmp_path / "nowhere")
    (saved / "weights.safetensors").unlink()
    with pytest.raises(DamagedFile, match=r"no readable weights\.safetensors"):
        Model.load(saved)
    (saved / "model.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"no readable model\.json"):
        Model.load(saved)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no.such.module:CVAE", "cannot be imported"),
        ("steersman.models.networks.cvae:Nobody", "cannot be imported"),
        ("", "cannot be imported"),
        ("subprocess:Popen", "subprocess:Popen is no Model"),
    ],
)
def test_a_card_cannot_make_us_call_anything_but_a_model(saved: Path, name: str, told: str) -> None:
    """A card is data from somewhere else."""
    edit(saved, **{"class": name})
    with pytest.raises((DamagedFile, BadInput), match=told):
        Model.load(saved, trusted=True)
    with pytest.raises((DamagedFile, BadInput)):
        Model.load(saved)


def test_only_a_module_that_is_imported_already_has_the_class_of_a_model_unless_it_is_trusted(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "others_own.py").write_text("from steersman.models import CVAE as Own")
    edit(saved, **{"class": "others_own:Own"})
    with pytest.raises(BadInput):
        Model.load(saved)
    assert "others_own" not in sys.modules
    assert Model.load(saved, trusted=True)
    assert Model.load(saved)
    monkeypatch.delitem(sys.modules, "others_own")


def test_another_class_than_asked_for_is_told(saved: Path) -> None:
    """A CVAE is no Line."""
    with pytest.raises(BadInput, match="CVAE, not a"):
        Line.load(saved)


@pytest.mark.parametrize("config", [{"size": 6, "colour": "red"}, {"size": 9}])
def test_a_configuration_that_does_not_fit_is_told(saved: Path, config: dict[str, Any]) -> None:
    """Arguments that the class does not know, or weights of another shape."""
    edit(saved, config=config)
    with pytest.raises(DamagedFile, match="config"):
        Model.load(saved)


@pytest.mark.parametrize(
    "changes",
    [{"class": "..x:y"}, {"class": 5}, {"sha256": 5}, {"config": []}, {"history": {}}, {"card": None}, {"class": ":"}],
    ids=str,
)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_card_of_other_types_is_refused(saved: Path, changes: dict[str, Any], trusted: bool) -> None:
    edit(saved, **changes)
    with pytest.raises((DamagedFile, BadInput)):
        Model.load(saved, trusted=trusted)


NETWORKS: list[Callable[[], Model]] = [
    lambda: models.PCA(size=10, latent=2), lambda: models.TICA(10, 2), lambda: models.Autoencoder(10, 2),
    lambda: CVAE(20), lambda: models.Vectors(3), lambda: models.Regressors(32, 2, 1), lambda: models.ResNet50(2, 2),
    lambda: models.Committee(3, 2), lambda: models.SphericalUNet(2, 32), lambda: models.Tiramisu(3, 2, 0.25),
]  # fmt: skip


@pytest.mark.parametrize("make", NETWORKS)
def test_a_card_of_a_network_that_is_larger_than_its_weights_costs_neither_time_nor_memory(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    """Who looks at a stranger's run makes none of it."""
    model = make()
    model.save(tmp_path)
    assert Model.load(tmp_path).config == model.config
    for name in [name for name, value in model.config.items() if type(value) is int]:
        edit(tmp_path, config=model.config | {name: 10**9})
        began = time.process_time()
        with pytest.raises(DamagedFile):
            Model.load(tmp_path)
        assert time.process_time() - began < 2, name
