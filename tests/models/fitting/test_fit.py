"""The training loop, on a problem whose solution is known."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steersman.models import CVAE, Model
from steersman.models.fitting.compiled import compiled
from steersman.models.fitting.fit import Total, evaluate, fit
from steersman.system.errors import BadValue, UnknownName


class Mean(Model):
    """One number."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))


def squared(model: Mean, batch: Tensor) -> dict[str, Tensor]:
    """Squared distance from the number, lowest at the mean of the data."""
    return {"loss": ((batch - model.value) ** 2).mean()}


def test_fitting_finds_the_mean() -> None:
    """Least squares on whole batches, where nothing but Adam's ringing is left after 300 steps: below 1e-3."""
    data = torch.linspace(1, 3, 101)
    model = fit(Mean(), data, squared, epochs=300, batch=101, lr=0.05)
    assert model.value.item() == pytest.approx(2, abs=1e-3)


def test_inputs_and_targets_stay_together() -> None:
    """The slope of targets that are three times their inputs, found on batches of 7 shuffled pairs."""

    def distance(model: Mean, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"loss": ((targets - model.value * inputs) ** 2).mean()}

    inputs = torch.linspace(1, 3, 101)
    model = fit(Mean(), (inputs, (3 * inputs).double()), distance, epochs=40, batch=7, lr=0.05)
    assert model.value.item() == pytest.approx(3, abs=1e-3)
    with pytest.raises(BadValue):
        fit(Mean(), (inputs, inputs[1:]), distance, epochs=1, batch=7, lr=0.05)


def test_an_epoch_s_record_is_the_mean_over_samples_not_over_batches() -> None:
    """Four samples in batches of three: the last, lonely one must not count three times. No step is taken (lr 0)."""
    record = fit(Mean(), torch.tensor([0.0, 0.0, 0.0, 2.0]), squared, epochs=1, batch=3, lr=0.0).history[0]
    assert record["loss"] == pytest.approx(1)
    assert evaluate(Mean(), torch.tensor([0.0, 0.0, 0.0, 2.0]), squared, batch=3) == {"loss": pytest.approx(1)}


def test_totals_of_two_halves_are_the_total() -> None:
    """Weighted by their samples."""
    total = Total()
    total.add({"loss": torch.tensor(1.0)}, 1)
    total.add({"loss": torch.tensor(4.0)}, 2)
    assert total.mean() == {"loss": 3.0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch's own modules
def test_a_compiled_training_is_the_same_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as always, run by torch itself, for C++ would take half a minute to compile. CUDA graphs need CUDA."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    data = torch.linspace(1, 3, 10)
    plain, same = (
        fit(Mean(), data, squared, epochs=2, batch=4, lr=0.05, compiled=word).value.item() for word in ("no", "yes")
    )
    assert same == pytest.approx(plain, rel=1e-6)
    with pytest.raises(UnknownName, match="'graphs'"):
        fit(Mean(), data, squared, epochs=1, batch=4, lr=0.05, compiled="graphs")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_graphs_are_those_of_a_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of torch on a CUDA device, which is not needed to ask; a result is a copy, for a graph's next pass
    writes where the last one did."""
    asked: dict[str, object] = {}
    given = {"loss": torch.tensor(1.0)}
    monkeypatch.setattr(torch, "compile", lambda loss, **how: asked.update(how) or loss)
    step = compiled(lambda model, batch: given, "graphs", torch.device("cuda"))
    assert asked == {"dynamic": False, "mode": "reduce-overhead"}
    told = step(Mean(), torch.zeros(1))["loss"]
    given["loss"].fill_(2)
    assert told.item() == 1


def test_nothing_to_train_on_is_told() -> None:
    """And nothing to measure on."""
    with pytest.raises(BadValue, match="to train on"):
        fit(Mean(), torch.zeros(0), squared, epochs=1, batch=1, lr=0.1)
    with pytest.raises(BadValue, match="to measure on"):
        evaluate(Mean(), torch.zeros(0), squared)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"epochs": 0}, "epochs = 0"), ({"batch": 0}, "batch = 0"), ({"lr": math.nan}, "lr = nan")],
)
def test_numbers_that_nothing_can_be_trained_with_are_told(wrong: dict[str, Any], told: str) -> None:
    """Not an untrained model, nor a division by zero."""
    settings: dict[str, Any] = {"epochs": 1, "batch": 1, "lr": 0.1}
    with pytest.raises(BadValue, match=told):
        fit(Mean(), torch.zeros(4), squared, **settings | wrong)
    with pytest.raises(BadValue, match="latent = 0"):
        CVAE(6, latent=0)


@pytest.mark.slow
def test_naming_the_models_does_not_import_torch() -> None:
    """A workflow file is read in milliseconds; `steersman check` needs no network."""
    code = "import sys, steersman.models as m; print('torch' in sys.modules); m.CVAE; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["False", "True"]
