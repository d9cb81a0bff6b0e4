"""Networks that step fields on the sphere: what their layers promise, and that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from steersman.models.model import Model
from steersman.models.networks.forecaster import Forecaster
from steersman.models.networks.spherical_convolution import sphere_pad
from steersman.models.networks.spherical_fourier import SphericalFourier
from steersman.models.networks.unet import SphericalUNet
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.system.errors import BadValue


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two on busy cores are up to twenty times slower than one."""
    torch.set_num_threads(1)


def untrained() -> SphericalUNet:
    torch.manual_seed(1)
    model = SphericalUNet(2, 16, width=8)
    torch.nn.init.normal_(model.last.weight)
    return model.eval()


def moving_waves() -> np.ndarray:
    """Runs of waves that move east by one column a step, heights of 10 km beside winds of 10 m/s."""
    rng = np.random.default_rng(0)
    lon = 2 * np.pi * np.arange(32) / 32
    runs = np.empty((24, 5, 2, 16, 32), np.float32)
    for run in runs:
        wave = np.sin(2 * lon[None] + rng.uniform(0, 6)) * np.cos(np.linspace(-1.4, 1.4, 16))[:, None]
        for time, frame in enumerate(run):
            frame[0], frame[1] = 1e4 + 100 * np.roll(wave, time, 1), 10 * np.roll(wave, time + 4, 1)
    return runs


def test_a_padded_field_goes_on_around_the_sphere_and_across_the_poles() -> None:
    """A field that is smooth on the sphere: beyond a pole it is what lies on the opposite meridian."""
    lat = np.radians(90 - (np.arange(-1, 17) + 0.5) * 180 / 16)[:, None]
    lon = 2 * np.pi * np.arange(-1, 33)[None] / 32
    field = np.sin(lat) + np.cos(lat) * np.cos(lon) + np.cos(lat) ** 2 * np.sin(2 * lon)
    inner = torch.as_tensor(field[None, None, 1:-1, 1:-1])
    np.testing.assert_allclose(sphere_pad(inner)[0, 0].numpy(), field, atol=1e-12)


def test_turning_the_sphere_turns_the_forecast() -> None:
    """By 8 columns, which all levels can follow."""
    model, fields = untrained(), torch.randn(1, 2, 16, 32)
    with torch.no_grad():
        turned, forecast = model(fields.roll(8, 3)), model(fields).roll(8, 3)
    torch.testing.assert_close(turned, forecast, rtol=1e-4, atol=1e-4)


def test_an_untrained_network_is_persistence() -> None:
    fields = torch.randn(2, 3, 16, 32)
    model = SphericalUNet(3, 16, width=8).eval()
    torch.testing.assert_close(model.forecast(fields, 2)[1], fields)
    assert model.forecast(fields, 0).shape == (0, 2, 3, 16, 32)
    np.testing.assert_array_equal(model.forecast(fields.double().numpy(), 2), model.forecast(fields, 2).numpy())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "settings"),
    [(SphericalUNet, {"width": 8}), (SphericalFourier, {"width": 8, "layers": 2, "truncation": 10})],
)
def test_it_learns_to_turn_a_field_in_its_units(network: type[Forecaster], settings: dict[str, Any]) -> None:
    runs = moving_waves()
    model = network.fit(runs[:20], epochs=8, batch=8, lr=3e-3, **settings)
    assert model.history[-1]["loss"] < 0.2
    held_out = torch.from_numpy(runs[20:])
    error = (model.forecast(held_out[:, 0], 2)[1] - held_out[:, 2]).square().mean((0, 2, 3))
    persistence = (held_out[:, 0] - held_out[:, 2]).square().mean((0, 2, 3))
    assert (error < 0.3 * persistence).all()


def test_mountains_stay_as_they_are_and_cost_the_rest_nothing() -> None:
    """Beyond the band limit, too, which would smooth them."""
    runs = moving_waves()[:8]
    mountains = np.random.default_rng(1).uniform(0, 3000, (1, 1, 1, 16, 32)).astype(np.float32)
    with_mountains = np.concatenate([runs, np.broadcast_to(mountains, (*runs.shape[:2], 1, 16, 32))], axis=2)
    model = SphericalUNet.fit(with_mountains, epochs=1, width=8, band_limit=10)
    assert model.history[-1]["loss"] < 1
    step = model.forecast(torch.from_numpy(with_mountains[:, 0]), 2)[1].numpy()
    assert (step[:, 2] == mountains[0, 0]).all()
    assert (step[:, 0] != runs[:, 0, 0]).any()


def test_what_is_kept_is_kept_for_a_month() -> None:
    """Mean of the first channel over the sphere, which is not the mean over the grid; the second may drift."""
    torch.manual_seed(1)
    model = SphericalUNet(2, 16, width=8, kept=(0,)).eval()
    torch.nn.init.normal_(model.last.weight, std=0.1)
    fields = 1e4 + torch.randn(1, 2, 16, 32)
    means = (model.forecast(fields, 120)[-1] * model.area).double().mean((2, 3)) / 1e4
    before = (fields * model.area).double().mean((2, 3)) / 1e4
    drift = (means - before).abs()[0]
    assert drift[0] < 1e-6, "rounding of float32"
    assert drift[1] > 1e-5


def restless(**laws: Any) -> SphericalUNet:
    """A network that changes much, and has learnt nothing."""
    torch.manual_seed(1)
    model = SphericalUNet(2, 16, width=8, **laws).eval()
    torch.nn.init.normal_(model.last.weight)
    return model


def test_a_bounded_network_never_gains_energy() -> None:
    """Of the second channel twice as much counts; of the first its deviation from its mean, which is kept."""
    fields = torch.randn(3, 2, 16, 32)
    fields[:, 0] += 1e3

    def energies(model: SphericalUNet) -> torch.Tensor:
        steps = torch.cat((fields[None], model.forecast(fields, 8))).double()
        steps[:, :, 0] -= (steps[:, :, 0] * model.area).mean((2, 3), keepdim=True)
        return ((steps**2 * model.area).mean((3, 4)) * torch.tensor([1.0, 2.0])).sum(2)

    bounded = energies(restless(kept=(0,), energy=(1, 2)))
    assert (bounded.diff(dim=0) <= 1e-5 * bounded[0]).all(), "rounding of float32"
    assert (energies(restless(kept=(0,)))[-1] > bounded[0]).all()


@pytest.mark.parametrize(
    ("laws", "told"),
    [
        ({"energy": (1, 2, 3)}, r"energy = \(1, 2, 3\)"),
        ({"kept": (2,)}, r"kept = \(2,\)"),
    ],
)
def test_laws_of_channels_that_are_not_there_are_told(laws: dict[str, Any], told: str) -> None:
    with pytest.raises(BadValue, match=told):
        SphericalUNet(2, 16, width=8, **laws)


def test_a_forecast_has_nothing_beyond_the_band_limit() -> None:
    sphere = SphericalHarmonics(10, dtype=torch.float32)
    fields = sphere.synthesis(sphere.analysis(torch.randn(2, 16, 32)) * sphere.inside)[None]
    limit = 5
    beyond = sphere.coefficients(sphere.degree > limit) != 0
    free, limited = (
        sphere.analysis(model(fields)[0].detach()).abs() ** 2 for model in (restless(), restless(band_limit=limit))
    )
    assert (free * beyond).sum() > 0.1 * free.sum()
    assert (limited * beyond).sum() < 1e-10 * limited.sum()
    with pytest.raises(BadValue, match="rows = 16"):
        SphericalUNet(2, 16, width=8, band_limit=31)


def test_unrolled_steps_are_those_of_a_forecast() -> None:
    """The loss of a window is the mean over its steps of what the forecast of its first frame is wrong by."""
    model, runs = restless(), torch.from_numpy(moving_waves()[:2])
    found = model.loss(runs)["loss"]
    wrong = (model.forecast(runs[:, 0], 4) - runs[:, 1:].transpose(0, 1)) / model.increment
    torch.testing.assert_close(found, (wrong**2 * model.area).mean())
    fitted = SphericalUNet.fit(runs.numpy(), width=8, epochs=1, unrolled=3)
    assert len(fitted.history) == 1
    with pytest.raises(BadValue, match="times >= 6"):
        SphericalUNet.fit(runs.numpy(), width=8, unrolled=5)
    with pytest.raises(BadValue, match="unrolled = 0"):
        SphericalUNet.fit(runs.numpy(), width=8, unrolled=0)


def test_a_fit_goes_on_from_the_last_network() -> None:
    runs = moving_waves()[:4]
    first = SphericalUNet.fit(runs, width=8, epochs=1)
    again = SphericalUNet.fit(runs, width=8, epochs=1, lr=1e-9, init=first)
    assert again.card["warm_start"]
    assert not SphericalUNet.fit(runs, width=16, epochs=1, init=first).card["warm_start"]
    torch.testing.assert_close(again(torch.from_numpy(runs[:, 0])), first(torch.from_numpy(runs[:, 0])))
    runs[:, :, 1] /= runs[:, :, 1].std()  # a constant counts as of spread 1, too
    still = runs.copy()
    still[:, :, 1] = 0.0
    moves = SphericalUNet.fit(runs, width=8, epochs=1, init=SphericalUNet.fit(still, width=8, epochs=1))
    assert (moves.increment > 0).all(), "what did not change before is forecast all the same"


def test_a_fit_leaves_the_caller_s_random_numbers_as_they_were() -> None:
    before = torch.get_rng_state()
    SphericalUNet.fit(moving_waves()[:2], width=8, epochs=1, seed=2**64)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_filter_by_degree_does_not_know_longitudes() -> None:
    """Turning the sphere by any column turns the forecast of the operator."""
    torch.manual_seed(1)
    model = SphericalFourier(2, 16, width=8, layers=1, truncation=10).eval()
    torch.nn.init.normal_(model.last.weight)
    fields = torch.randn(1, 2, 16, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(fields.roll(8, 3)), model(fields).roll(8, 3), rtol=1e-4, atol=1e-4)


def test_a_saved_network_forecasts_as_before(tmp_path: object) -> None:
    model, fields = untrained(), torch.randn(1, 2, 16, 32)
    model.save(str(tmp_path))
    torch.testing.assert_close(Model.load(str(tmp_path))(fields), model(fields))


@pytest.mark.parametrize("shape", [(2, 1, 1, 16, 32), (2, 3, 1, 12, 24), (2, 3, 1, 16, 16), (3, 1, 16, 32)])
def test_data_that_no_network_can_be_fitted_to_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadValue, match="frames"):
        SphericalUNet.fit(np.zeros(shape))
