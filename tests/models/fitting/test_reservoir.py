"""Samples that arrive: none is used more than it may be, each new one is, and a fit goes on where one stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steersman.models import CVAE, Committee, Model, Reservoir
from steersman.models.fitting.fit import fit
from steersman.models.fitting.reservoir import Draws
from steersman.system.errors import BadValue, UnknownName
from tests.models.mean_model import Small, fresh, rows, squared, streamed

arrivals = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)  # that come, that leave


@pytest.mark.slow
@given(arrivals=arrivals, uses=st.integers(1, 5), steps=st.integers(1, 6), batch=st.integers(1, 8), seed=st.integers(0))
def test_no_sample_is_drawn_more_than_it_may_be_and_new_ones_first(
    arrivals: list[tuple[int, int]], uses: int, steps: int, batch: int, seed: int
) -> None:
    """Whatever comes and leaves between the trainings: every draw is counted, an epoch is as long as was asked for or
    takes all that is left, all that is new is drawn where it fits in, and what is kept is as large as the window."""
    first, end = 0, 1
    total: dict[int, int] = {}
    state: dict[str, torch.Tensor] = {}
    for come, leave in arrivals:
        end += come
        first = min(first + leave, end - 1)
        ids = np.arange(first, end)
        draws = Draws(Reservoir(ids, uses, steps), len(ids), seed, "adam", state)
        unseen, left = (draws.used == 0).sum(), draws.left.sum()
        drawn = draws.epoch(batch).numpy()
        assert len(drawn) == min(steps * batch, left)
        assert len(set(drawn[np.isin(ids[drawn], list(total), invert=True)])) == min(unseen, len(drawn))
        for each in ids[drawn].tolist():
            total[each] = total.get(each, 0) + 1
        assert max(total.values(), default=0) <= uses
        assert draws.used.tolist() == [total.get(each, 0) for each in ids.tolist()]
        assert (draws.drawn, draws.different) == (sum(total.values()), len(total))
        state = draws.state()
        assert sum(map(len, state.values())) == 2 * len(ids) + 2


def test_what_is_left_is_drawn_evenly() -> None:
    """Of 1000 samples, half with 3 uses left and half with 1: the first are drawn three times as often, 1500 of 2000
    draws; 1000 draws of these have 750 of them, give or take five times the spread of a hypergeometric draw, 13.7."""
    state = {"ids": torch.arange(1000), "used": torch.tensor([1, 3]).repeat(500), "counts": torch.tensor([2000, 1000])}
    drawn = Draws(Reservoir(np.arange(1000), 4, 100), 1000, 0, "adam", state).epoch(10)
    assert abs((drawn % 2 == 0).sum().item() - 750) < 70


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_fit_that_was_saved_goes_on_as_if_it_had_not_stopped(tmp_path: Path, optimizer: str) -> None:
    """Weights bit for bit, the optimizer's moments and counts too; the first half is left as it was."""
    whole, half = streamed(4, optimizer=optimizer), streamed(2, optimizer=optimizer)
    half.save(tmp_path)
    loaded, again = Model.load(tmp_path), fresh()
    assert again.warm_start(loaded)
    streamed(2, again, optimizer=optimizer)
    assert all(map(torch.equal, again.parameters(), whole.parameters()))
    assert again.stream.keys() == whole.stream.keys()
    assert all(torch.equal(again.stream[name], value) for name, value in whole.stream.items())
    assert all(torch.equal(loaded.stream[name], value) for name, value in half.stream.items())


def test_a_fit_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """From its checkpoint, with the model that it began with."""
    whole, again = streamed(2), streamed(2)
    streamed(3, whole)
    begun = fresh()
    begun.warm_start(again)
    streamed(1, begun, checkpoint=tmp_path)
    streamed(3, again, checkpoint=tmp_path)
    assert all(map(torch.equal, again.parameters(), whole.parameters()))
    assert torch.equal(again.stream["used"], whole.stream["used"])


def test_another_seed_draws_others() -> None:
    one, same, other = (streamed(1, seed=seed).stream["used"] for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_fit_ends_when_nothing_is_left() -> None:
    """96 samples of 8 uses are 48 steps of 16: ten epochs of 5 steps, the last with 3; then it stays as it is."""
    model = streamed(20)
    assert len(model.history) == 10
    assert set(model.stream["used"].tolist()) == {8}
    assert model.card["reservoir"] == {"drawn": 8 * 96, "different": 96}
    weights = [parameter.clone() for parameter in model.parameters()]
    assert streamed(1, model).history == []
    assert all(map(torch.equal, model.parameters(), weights))


def test_a_fit_without_a_reservoir_keeps_nothing_of_one(tmp_path: Path) -> None:
    model = streamed(1)
    model.save(tmp_path)
    assert (tmp_path / "stream.safetensors").exists()
    fit(model, rows(), squared, epochs=1, batch=16, lr=0.01)
    model.save(tmp_path)
    assert not Model.load(tmp_path).stream


def test_with_another_optimizer_only_the_counts_go_on() -> None:
    """Adam has no use for what SGD remembers."""
    model = streamed(1, optimizer="sgd")
    streamed(1, model, optimizer="adam")
    assert model.card["reservoir"]["drawn"] == 2 * 80
    assert not any("sgd" in name for name in model.stream)


def test_models_take_it() -> None:
    """Committee and regressors by `fitted`, the variational autoencoder, which draws noise of its own."""
    reservoir = Reservoir(np.arange(40), uses=4, steps=2)
    images, labels = np.random.default_rng(0).random((40, 1, 24, 24)), np.arange(40) % 2
    for _ in range(2):
        committee = Committee.fit(images, labels, classes=2, members=1, epochs=1, batch=8, reservoir=reservoir)
        maps = CVAE.fit(images[:, 0, :6, :6] < 0.5, channels=4, epochs=1, batch=8, reservoir=reservoir)
    assert committee.card["reservoir"] == maps.card["reservoir"] == {"drawn": 16, "different": 16}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"ids": np.arange(95)}, BadValue),
        ({"ids": np.zeros(96, np.int64)}, BadValue),
        ({"uses": 0}, BadValue),
        ({"steps": 0}, BadValue),
        ({"strategy": "zero"}, UnknownName),
        ({"strategy": "local_sgd"}, UnknownName),
    ],
)
def test_a_reservoir_that_cannot_be_is_told(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        streamed(1, **wrong)


@pytest.mark.slow
def test_two_ranks_draw_what_one_with_twice_the_batch_does(two: dict[str, Any]) -> None:
    """The same samples, and weights up to the rounding of sums, see test_two_ddp_ranks_equal_one_with_twice_the_batch;
    in two fits, the second of which goes on."""
    one: Small = streamed(2, batch=32)
    streamed(2, one, batch=32)
    assert two["streamed"]["used"] == one.stream["used"].tolist()
    weights = torch.cat([parameter.detach().flatten() for parameter in one.parameters()])
    assert np.allclose(two["streamed"]["weights"], weights, rtol=0, atol=1e-5)
