"""Time-lagged components: directions whose autocorrelation is known exactly, linear ones and those of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.models import PCA, TICA, Autoencoder, DeepTICA, Model, slowness
from steersman.models.networks.cvae import CVAE
from steersman.steering import Bias
from steersman.system.errors import BadInput, BadValue

LAG, TIMES = 5, np.array([200.0, 20.0, 2.0])  # of decay, in frames
DECAY = np.exp(-LAG / TIMES)


def processes(n: int = 20_000, seed: int = 0) -> np.ndarray:
    """(n, 3): Ornstein-Uhlenbeck processes of unit variance, the slow one the smallest."""
    rng = np.random.default_rng(seed)
    keep = np.exp(-1 / TIMES)
    x = np.zeros((n, 3))
    noise = rng.normal(size=(n, 3)) * np.sqrt(1 - keep**2)
    for i in range(1, n):
        x[i] = keep * x[i - 1] + noise[i]
    return x


def pairs(n: int) -> np.ndarray:
    first = np.arange(n - LAG)
    return np.stack([first, first + LAG], axis=1)


@pytest.fixture(scope="module")
def mixed() -> tuple[np.ndarray, np.ndarray]:
    """The processes, and what is seen of them: turned, so that variance does not tell which is slow."""
    x = processes()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    return x, (x * np.array([0.3, 1.0, 1.0])) @ turn + 5.0


def test_the_slow_direction_is_found_though_it_varies_least(mixed: tuple[np.ndarray, np.ndarray]) -> None:
    x, seen = mixed
    model = TICA.fit(seen, pairs(len(seen)), latent=2)
    z = model.encode(seen)
    assert abs(np.corrcoef(z[:, 0], x[:, 0])[0, 1]) > 0.99
    assert abs(np.corrcoef(PCA.fit(seen, latent=1).encode(seen)[0][:, 0], x[:, 0])[0, 1]) < 0.5
    np.testing.assert_allclose(model.card["autocorrelation"], DECAY[:2], atol=0.05)
    np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=0.05)


def test_weights_count_frames_as_if_they_came_so_often(mixed: tuple[np.ndarray, np.ndarray]) -> None:
    _, seen = mixed
    few = pairs(500)
    twice = np.where(np.arange(len(seen)) % 2, 2.0, 1.0)
    one = TICA.fit(seen, few, latent=1, weights=twice)
    other = TICA.fit(seen, np.concatenate([few, few[few[:, 0] % 2 == 1]]), latent=1)
    np.testing.assert_allclose(one.encode(seen), other.encode(seen), atol=1e-9)


def test_slowness_is_that_of_the_processes_whatever_the_scales(mixed: tuple[np.ndarray, np.ndarray]) -> None:
    x, seen = mixed
    found = slowness(x, pairs(len(x)))
    assert found == pytest.approx((DECAY**2).sum(), abs=0.05)
    assert slowness(seen, pairs(len(x))) == pytest.approx(found, abs=1e-9)
    assert slowness(x[:, [0, 1, 1]], pairs(len(x))) == pytest.approx(slowness(x[:, :2], pairs(len(x))), abs=1e-6)


def test_a_block_of_time_that_was_held_out_sees_that_a_model_learned_chance_and_a_split_at_random_does_not() -> None:
    """Thirty processes that are equally slow, of 400 frames; no two directions are slower than `truth`."""
    rng, time, truth = np.random.default_rng(0), 10.0, 2 * np.exp(-2 * LAG / 10.0)
    keep, data = np.exp(-1 / time), np.zeros((400, 30))
    for i in range(1, len(data)):
        data[i] = keep * data[i - 1] + np.sqrt(1 - keep**2) * rng.normal(size=30)
    among = pairs(len(data))
    block = among[:, 0] >= 300
    for held_out, sees in ((block, True), (rng.permutation(block), False)):
        z = (model := TICA.fit(data, among[~held_out], latent=2)).encode(data)
        assert slowness(z, among[~held_out]) == pytest.approx(
            (np.square(model.card["autocorrelation"])).sum(), abs=1e-3
        )
        assert slowness(z, among[~held_out]) > 2 * truth
        assert (slowness(z, among[held_out]) < 1.3 * truth) == sees


@pytest.mark.slow
def test_a_network_sees_what_no_line_separates() -> None:
    """The slow process is the radius of a ring that turns fast."""
    slow, fast, _ = processes(8_000).T
    angle = 6 * fast
    seen = (2 + 0.3 * slow)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    deep, linear = (kind.fit(seen, pairs(len(seen)), latent=1) for kind in (DeepTICA, TICA))
    found = [abs(np.corrcoef(model.encode(seen)[:, 0], slow)[0, 1]) for model in (deep, linear)]
    assert found[0] > 0.9 > found[1]
    assert deep.card["autocorrelation"][0] > linear.card["autocorrelation"][0]


@pytest.mark.parametrize("kind", [TICA, DeepTICA, PCA, Autoencoder])
def test_layers_are_the_same_function_as_encode(
    mixed: tuple[np.ndarray, np.ndarray], kind: type[Model], tmp_path: Path
) -> None:
    _, seen = mixed
    fit: dict[str, Any] = {"pairs": pairs(2000)} if kind in (TICA, DeepTICA) else {}
    fit |= {"epochs": 2} if kind in (DeepTICA, Autoencoder) else {}
    kind.fit(seen, latent=2, **fit).save(tmp_path)  # type: ignore[attr-defined]
    model = Model.load(tmp_path)
    value = seen
    for number, (weights, offsets) in enumerate(model.dense_layers()):
        value = (np.tanh(value) if number else value) @ weights.T + offsets
    encoded = model.encode(seen)  # type: ignore[operator]
    np.testing.assert_allclose(value, encoded[0] if isinstance(encoded, tuple) else encoded, atol=1e-4)
    a_bias_pushes_down_its_slope_along_what_the_model_encodes(model, value, seen[5].astype(float))


def a_bias_pushes_down_its_slope_along_what_the_model_encodes(model: Model, z: np.ndarray, x: np.ndarray) -> None:
    """Against differences of the energy along each input."""
    rows, widths = z[::100].astype(np.float32), np.full((len(z[::100]), 2), z.std(), np.float32)
    bias = Bias(1, 8.0, False, rows, widths, np.full(len(rows), 1 / len(rows), np.float32), np.zeros(2))
    push = bias.along(model)
    energy, gradient = push(x)
    assert energy == pytest.approx(bias.energy(z[5]).item())
    steps = 1e-4 * np.eye(len(x))
    slopes = [(push(x + step)[0] - push(x - step)[0]) / 2e-4 for step in steps]
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-6)
    alone = bias.along()(z[5])
    assert alone[0] == pytest.approx(energy)
    np.testing.assert_array_equal(alone[1], bias.gradient(z[5]))


def test_a_deep_fit_repeats_and_goes_on(mixed: tuple[np.ndarray, np.ndarray]) -> None:
    _, seen = mixed
    one, other = (DeepTICA.fit(seen, pairs(2000), latent=2, epochs=2, seed=3) for _ in range(2))
    assert (one.encode(seen) == other.encode(seen)).all()
    assert DeepTICA.fit(seen, pairs(2000), latent=2, epochs=1, init=one).card["warm_start"]
    assert not DeepTICA.fit(100 * seen, pairs(2000), latent=2, epochs=1, init=one).card["warm_start"]


def test_what_cannot_be_written_out_as_forces_says_so() -> None:
    with pytest.raises(BadInput):
        CVAE(10, 2).dense_layers()


@pytest.mark.parametrize("kind", [TICA, DeepTICA])
def test_data_without_pairs_or_changes_are_refused(kind: type[TICA | DeepTICA]) -> None:
    x = processes(50)
    for data, two in ((x, np.empty((0, 2), int)), (np.ones((50, 3)), pairs(50)), (x * np.nan, pairs(50))):
        with pytest.raises(BadValue):
            kind.fit(data, two, latent=1)
