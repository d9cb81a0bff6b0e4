"""The strategies beyond plain averaging: each is what it claims to be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from steersman.models.errors import RankLost
from steersman.models.fit import fit
from steersman.models.parameter_server import Staleness
from steersman.models.ranks import launch
from steersman.models.stepper import Stepper
from tests.models.mean_model import fresh, rows, squared, train_each

ROOT = Path(__file__).parents[2]
WORDS = ["ddp", "zero", "ddp(lag=1)", "hogwild", "async(max_staleness=0)", "async(max_staleness=3)"]
BYTES = 8 * (8 * 13 + 13 + 13 + 1)  # Adam's two moments, float32, of the small network


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two ranks made of each strategy; one start of ranks for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        folder = tmp_path_factory.mktemp("ranks")
        arguments = {"words": WORDS, "batch": 8}
        return launch(
            "tests.models.mean_model:train_each", arguments, ranks=2, strategy="ddp", folder=folder, timeout_s=60
        ).card


@pytest.mark.parametrize("word", ["zero", "hogwild", "async(max_staleness=0)", "async(max_staleness=5)"])
def test_one_rank_equals_serial_bit_for_bit(word: str) -> None:
    """Alone there is nobody to be late for, nobody to overwrite, and nothing to share out."""
    card = train_each(words=[word, "single"], batch=10).card
    assert card[word]["weights"] == card["single"]["weights"]


def test_all_ranks_weights_agree_after_every_synchronisation(two: dict[str, Any]) -> None:
    """At the end of each epoch; hogwild's ranks go on at once, so theirs are compared at the end, by fit itself."""
    for word in WORDS:
        mine, other = two[word]["hashes"]
        assert mine == other or word == "hogwild"
        assert len(set(mine)) == 3


def test_every_strategy_learns(two: dict[str, Any]) -> None:
    for word in WORDS:
        history = two[word]["history"]
        assert history[-1]["loss"] < 0.9 * history[0]["loss"], word


def test_zero_is_ddp_with_the_moments_shared_out(two: dict[str, Any]) -> None:
    """The same weights bit for bit; each rank keeps the moments of a part, together all of them once."""
    assert two["zero"]["weights"] == two["ddp"]["weights"]
    held = two["zero"]["told"]["optimizer_bytes"]
    assert max(held) < BYTES
    assert sum(held) == pytest.approx(BYTES, abs=32)  # and a count of steps for each of four tensors


def test_a_lag_of_one_steps_with_the_gradients_of_the_step_before() -> None:
    """A loop by hand: the first step sees zeros, the last gradients are dropped."""
    ours, plain, data = fresh(), fresh(), rows()
    fit(ours, data, squared, epochs=2, batch=40, lr=0.05, seed=3, optimizer="sgd", strategy="ddp(lag=1)")
    steps = torch.optim.SGD(plain.parameters(), 0.05, momentum=0.9, fused=True)
    order, parameters = torch.Generator().manual_seed(3), list(plain.parameters())
    before = [torch.zeros_like(parameter) for parameter in parameters]
    for _ in range(2):
        for picked in torch.split(torch.randperm(len(data), generator=order), 40):
            now = torch.autograd.grad(squared(plain, data[picked])["loss"], parameters)
            for parameter, gradient in zip(parameters, before, strict=True):
                parameter.grad = gradient.clone()
            nn.utils.clip_grad_norm_(parameters, 5.0)
            steps.step()
            before = list(now)
    assert all(map(torch.equal, ours.parameters(), plain.parameters()))


def test_lagging_ranks_equal_one_with_twice_the_batch(two: dict[str, Any]) -> None:
    """The lag is the same for both; up to rounding, see test_two_ddp_ranks_equal_one_with_twice_the_batch."""
    one = train_each(words=["ddp(lag=1)"], batch=16).card
    assert np.allclose(two["ddp(lag=1)"]["weights"], one["ddp(lag=1)"]["weights"], rtol=0, atol=1e-5)


def test_staleness_stays_below_its_bound_and_is_counted(two: dict[str, Any]) -> None:
    """Every gradient of 2 ranks x 3 epochs x 6 batches is in the histogram; with a bound of 0 they take turns."""
    for bound in (0, 3):
        counts = two[f"async(max_staleness={bound})"]["told"]["staleness"]
        assert len(counts) == bound + 1
        assert sum(counts) == 2 * 3 * 6


def test_a_parameter_server_that_fails_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after the time that a slow rank may take."""

    def fail(stepper: Stepper, epoch: float) -> None:
        raise MemoryError

    monkeypatch.setattr(Stepper, "step", fail)
    with pytest.raises(RankLost, match="the parameter server failed, see rank 0"):
        train_each(words=["async(max_staleness=1)"], batch=10)


@given(st.integers(0, 4), st.integers(1, 6), st.randoms(use_true_random=False))
def test_no_order_of_arrival_exceeds_the_bound_or_blocks(bound: int, ranks: int, random: Any) -> None:
    """Ranks that want weights or bring gradients at any moment: all 5 gradients of each are taken in the end."""
    queue = Staleness(bound)
    left, state = dict.fromkeys(range(ranks), 5), dict.fromkeys(range(ranks), "idle")
    for _ in range(2 * 5 * ranks):
        rank = random.choice([rank for rank in state if state[rank] in ("idle", "computing") and left[rank]])
        if state[rank] == "idle":
            queue.ask(rank)
            state[rank] = "waiting"
        else:
            queue.arrive(rank)
            state[rank] = "pushed"
        while (todo := queue.next()) is not None:
            what, who = todo
            state[who] = "computing" if what == "give" else "idle"
            left[who] -= what == "take"
    assert sum(queue.histogram) == queue.version == 5 * ranks


def test_both_ranks_of_hogwild_change_the_same_weights(two: dict[str, Any]) -> None:
    """A number that every step lowers by a known amount falls further than one rank's steps bring it, and not further
    than both ranks' do; a few steps may overwrite each other."""
    velocity = fallen = 0.0
    for _ in range(6):  # steps of each rank, SGD with momentum
        velocity = 0.9 * velocity + 1
        fallen -= 0.01 * velocity
    assert 2 * fallen * (1 + 1e-6) <= two["fallen"] < fallen
