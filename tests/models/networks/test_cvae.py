"""The convolutional VAE: its size, its determinism, and that it learns what it is shown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from steersman.models import CVAE
from steersman.models.errors import TrainingDiverged
from steersman.models.fitting.fit import seeded
from steersman.models.networks.cvae import elbo
from steersman.system.errors import BadValue

Chains = Callable[..., np.ndarray]
SIZE = 10


@pytest.fixture(scope="module")
def fitted(chains: Chains) -> CVAE:
    """A network that has seen 1,000 chains of 10 residues."""
    torch.set_num_threads(1)
    return CVAE.fit(chains(1000, SIZE), epochs=15, seed=1)


def weights(model: CVAE) -> list[np.ndarray]:
    """All the trained numbers."""
    return [parameter.detach().numpy() for parameter in model.parameters()]


def test_deepex_has_the_paper_s_26_million_parameters() -> None:
    """Counted by hand for 28 residues: convolutions, dense layers (the last without bias), latent heads."""
    convolutions = 2 * (2 * (128 * 128 * 9 + 128)) + (1 * 128 * 9 + 128) + (128 * 1 * 9 + 1)
    wide = 128 * 28 * 28
    dense = (wide * 128 + 128) + 128 * wide + (3 * 128 + 128)
    heads = 2 * (128 * 3 + 3)
    assert CVAE.deepex().parameter_count == convolutions + dense + heads == 26_284_295


def test_the_default_is_small() -> None:
    """At most 0.45 million at 28 residues: a second of one core trains on two thousand maps."""
    assert CVAE(28).parameter_count < 450_000


@pytest.mark.parametrize("size", [1, 5, 10, 21, 28, 35])
def test_any_map_size_comes_back_in_its_own_size(size: int, chains: Chains) -> None:
    """Padding happens inside."""
    model = CVAE(size).eval()
    maps = chains(3, size)
    with torch.no_grad():
        mean, log_variance = model(torch.from_numpy(maps).float())
        assert model.decode(mean).shape == maps.shape
    assert mean.shape == log_variance.shape == (3, 3)


def test_padding_is_never_counted_as_a_pixel(chains: Chains) -> None:
    """The error of a blank network is ln 2 per pixel, for every size: all logits are 0."""
    for size in (9, 12):
        model = CVAE(size).eval()
        for parameter in model.parameters():
            parameter.data.zero_()
        assert model.encode(chains(4, size))[1] == pytest.approx(np.log(2), rel=1e-6)


def test_the_same_seed_gives_the_same_weights_bit_for_bit(chains: Chains) -> None:
    """Whatever torch's global random numbers are, which are left as they were."""
    maps = chains(200, SIZE)
    torch.manual_seed(1)
    first, after = CVAE.fit(maps, epochs=2, seed=7), torch.rand(1)
    torch.manual_seed(2)
    second, other = CVAE.fit(maps, epochs=2, seed=7), CVAE.fit(maps, epochs=2, seed=8)
    torch.manual_seed(1)
    assert torch.rand(1) == after
    assert all(np.array_equal(*pair) for pair in zip(weights(first), weights(second), strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(weights(first), weights(other), strict=True))


def test_packed_and_float_maps_train_alike(chains: Chains) -> None:
    """Bool, uint8 and float32 of the same maps give the same weights."""
    maps = chains(100, SIZE)
    kinds = [CVAE.fit(maps.astype(kind), epochs=1) for kind in (np.bool_, np.uint8, np.float32)]
    for arrays in zip(*map(weights, kinds), strict=True):
        assert all(np.array_equal(arrays[0], other) for other in arrays[1:])


@pytest.mark.slow
def test_the_loss_falls_and_its_parts_add_up(fitted: CVAE) -> None:
    """From the first epoch to the last by more than half; loss = reconstruction + beta kl up to float32."""
    first, last = fitted.history[0], fitted.history[-1]
    assert last["loss"] < first["loss"] / 2
    assert last["loss"] == pytest.approx(last["reconstruction"] + fitted.beta * last["kl"], rel=1e-4)
    assert all(type(value) is float for record in fitted.history for value in record.values())


def test_a_map_is_rebuilt_better_than_by_the_mean_of_all_maps(fitted: CVAE, chains: Chains) -> None:
    """On held-out chains: the latent coordinates tell more than how often each pixel touches."""
    held_out = chains(200, SIZE, seed=9)
    share = chains(1000, SIZE).mean(axis=0).clip(1e-3, 1 - 1e-3)
    by_mean = -np.where(held_out, np.log(share), np.log(1 - share)).mean()
    assert fitted.encode(held_out)[1].mean() < by_mean / 2


def test_what_was_never_seen_has_the_larger_error(fitted: CVAE, chains: Chains) -> None:
    """Random contacts are no chain."""
    known, noise = chains(100, SIZE, seed=9), np.random.default_rng(0).random((100, SIZE, SIZE)) < 0.5
    assert fitted.encode(noise)[1].min() > fitted.encode(known)[1].max()


def test_encoding_does_not_depend_on_order_or_company(fitted: CVAE, chains: Chains) -> None:
    """Permuting maps permutes results; batches of 7 give what one batch gives, up to float32 summation."""
    maps = chains(50, SIZE, seed=3)
    order = np.random.default_rng(0).permutation(50)
    z, error = fitted.encode(maps)
    mixed_z, mixed_error = fitted.encode(maps[order], batch=7)
    assert (z.shape, error.shape, z.dtype.name, error.dtype.name) == ((50, 3), (50,), "float32", "float32")
    assert mixed_z == pytest.approx(z[order], abs=1e-5)
    assert mixed_error == pytest.approx(error[order], abs=1e-6)


def test_evaluation_draws_no_noise(fitted: CVAE, chains: Chains) -> None:
    """The same held-out maps give the same loss, which is the error of encode plus the KL term."""
    held_out = chains(100, SIZE, seed=4)
    record = fitted.evaluate(held_out)
    assert record == fitted.evaluate(held_out)
    assert record["reconstruction"] == pytest.approx(fitted.encode(held_out)[1].mean() * SIZE**2, rel=1e-5)


def test_a_warm_start_begins_where_the_last_fit_ended(fitted: CVAE, chains: Chains) -> None:
    """Its first epoch is far below a cold one's; the model it came from is left as it was."""
    maps, before = chains(1000, SIZE, seed=5), [array.copy() for array in weights(fitted)]
    warm, cold = CVAE.fit(maps, init=fitted, epochs=1), CVAE.fit(maps, epochs=1)
    assert warm.history[0]["loss"] < cold.history[0]["loss"] / 2
    assert (warm.card["warm_start"], cold.card["warm_start"]) == (True, False)
    assert all(np.array_equal(*pair) for pair in zip(weights(fitted), before, strict=True))


def test_another_architecture_starts_cold(fitted: CVAE, chains: Chains) -> None:
    """A warm start that does not fit is no error: the new network is told to be a cold one."""
    assert CVAE.fit(chains(50, SIZE), latent=2, init=fitted, epochs=1).card["warm_start"] is False


def test_the_kl_term_is_that_of_normal_distributions(chains: Chains) -> None:
    """Against torch.distributions."""
    model = CVAE(SIZE).train()
    maps = torch.from_numpy(chains(8, SIZE)).float()
    with seeded(0), torch.no_grad():
        mean, log_variance = model(maps)
        latent = torch.distributions.Normal(mean, torch.exp(0.5 * log_variance))
        expected = torch.distributions.kl_divergence(latent, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
        assert float(elbo(model, maps)["kl"]) == pytest.approx(float(expected), rel=1e-4)


def test_a_collapsed_latent_space_shows_in_its_spread(fitted: CVAE, chains: Chains) -> None:
    """A KL weight of 1,000 leaves nothing to tell maps apart; the default leaves a dimension that does."""
    maps = chains(500, SIZE)
    collapsed = CVAE.fit(maps, epochs=5, beta=1000)
    assert collapsed.latent_spread(maps).max() < 0.1
    assert fitted.latent_spread(maps).max() > 0.5


def test_every_epoch_is_reported(chains: Chains) -> None:
    """What the history holds, while it happens."""
    told: list[dict[str, float]] = []
    assert CVAE.fit(chains(20, SIZE), epochs=3, report=told.append).history == told
    assert len(told) == 3


def test_maps_that_may_not_be_written_to_are_read(chains: Chains) -> None:
    """A window that is memory-mapped read-only."""
    maps = chains(20, SIZE)
    maps.flags.writeable = False
    assert len(CVAE.fit(maps, epochs=1).history) == 1


def test_a_loss_that_is_no_longer_finite_is_told(chains: Chains) -> None:
    """With the epoch and the step size."""
    with pytest.raises(TrainingDiverged, match=r"epoch \d"):
        CVAE.fit(chains(50, SIZE), lr=1e20, epochs=5)


@pytest.mark.parametrize(
    ("maps", "told"),
    [
        (np.zeros((0, SIZE, SIZE), bool), "there are no maps"),
        (np.zeros((4, SIZE), bool), "square"),
        (np.zeros((4, SIZE, SIZE + 1), bool), "square"),
        (np.full((4, SIZE, SIZE), np.nan), "found NaN"),
        (np.full((4, SIZE, SIZE), 2, np.uint8), "something outside"),
        (np.zeros((4, SIZE + 1, SIZE + 1), bool), "the model was built for maps of 10x10"),
    ],
)
def test_maps_that_cannot_be_used_are_told(maps: np.ndarray, told: str, fitted: CVAE) -> None:
    """With their shape."""
    with pytest.raises(BadValue, match=told):
        fitted.encode(maps)
