"""The strategies beyond plain averaging: each is what it claims to be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from steersman.models.errors import RankLost
from steersman.models.fitting.fit import fit
from steersman.models.ranks.parameter_server import Staleness
from steersman.models.steps.stepper import Stepper
from tests.models.conftest import BATCH, SAMPLES, WORDS
from tests.models.mean_model import flat, fresh, rows, squared, train, train_each

BYTES = 8 * (8 * 13 + 13 + 13 + 1)  # Adam's two moments, float32, of the small network


@pytest.mark.parametrize("word", ["zero", "hogwild", "async(max_staleness=0)", "async(max_staleness=5)"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_one_rank_equals_serial_bit_for_bit(word: str, precision: str) -> None:
    """Alone there is nobody to be late for, nobody to overwrite, and nothing to share out; where gradients overflow as
    they are first scaled, the same steps are left out."""
    card = train_each(words=[f"{each} in {precision}" for each in (word, "single")], batch=10).card
    one, serial = card.values()
    assert one["weights"] == serial["weights"]


@pytest.mark.slow
def test_two_ddp_ranks_equal_one_with_twice_the_batch(two: dict[str, Any]) -> None:
    """Even where the last batch has one sample, for one of the ranks: 97 = 6 x 16 + 1. Gradients differ by float32's
    summation order, about 1e-7 of them; Adam's steps of 0.01 are the gradient over its own size, so 21 of them differ
    by less than 1e-5."""
    one = train(batch=2 * BATCH, samples=SAMPLES)
    assert np.allclose(two["ddp"]["weights"], flat(one), rtol=0, atol=1e-5)
    assert not np.allclose(flat(one), flat(fresh()), rtol=0, atol=0.01)
    assert two["ddp"]["history"][-1]["loss"] == pytest.approx(one.history[-1]["loss"], rel=1e-5)


def test_all_ranks_weights_agree_after_every_synchronisation(two: dict[str, Any]) -> None:
    """At the end of each epoch, though each began with weights of its own, and ranks with steps of their own take one
    more or less; hogwild's ranks go on at once, so theirs are compared at the end, by fit itself."""
    for word in WORDS:
        mine, other = two[word]["hashes"]
        assert mine == other or word == "hogwild"
        assert len(set(mine)) == 3


def test_every_strategy_learns(two: dict[str, Any]) -> None:
    for word in WORDS:
        history = two[word]["history"]
        assert history[-1]["loss"] < 0.95 * history[0]["loss"], word


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
    one = flat(train(batch=2 * BATCH, samples=SAMPLES, strategy="ddp(lag=1)"))
    assert np.allclose(two["ddp(lag=1)"]["weights"], one, rtol=0, atol=1e-5)


def test_staleness_stays_below_its_bound_and_is_counted(two: dict[str, Any]) -> None:
    """Every gradient of 3 epochs of 7 and 6 batches is in the histogram; with a bound of 0 ranks take turns."""
    for bound in (0, 3):
        counts = two[f"async(max_staleness={bound})"]["told"]["staleness"]
        assert len(counts) == bound + 1
        assert sum(counts) == 3 * (7 + 6)


def test_gradients_that_overflow_are_not_sent(two: dict[str, Any]) -> None:
    """Each rank halves a scale of its own until they do not, see mean_model.steep; the rest is sent."""
    counts = two["async(max_staleness=3) in fp16"]["told"]["staleness"]
    assert 2 * (7 + 6) < sum(counts) <= 3 * (7 + 6) - 2


def test_a_parameter_server_that_fails_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after the time that a slow rank may take."""

    def fail(stepper: Stepper, epoch: float) -> None:
        raise MemoryError

    monkeypatch.setattr(Stepper, "step", fail)
    with pytest.raises(RankLost, match="see rank 0"):
        train_each(words=["async(max_staleness=1)"], batch=10)


@pytest.mark.slow
def test_a_killed_training_takes_its_bus_along_and_nothing_else(tmp_path: Path) -> None:
    """Also where the name of the folder for what is temporary has a blank."""
    disk, neighbour = tmp_path / "my disk", tmp_path / "my"
    disk.mkdir()
    neighbour.mkdir()
    program = """if True:
        import os
        from steersman.models.fitting.fit import fit
        from tests.models.mean_model import fresh, rows
        kill = lambda *_: os.kill(os.getpid(), 9)
        fit(fresh(), rows(8), kill, epochs=1, batch=4, lr=0.1, strategy="async")
    """
    ended = subprocess.run(  # until whoever cleans up has closed what it inherited
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(disk)}, stdout=subprocess.PIPE, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert list(disk.glob("steersman-*")) == []
    assert neighbour.exists()


@given(st.integers(0, 4), st.integers(1, 6), st.randoms(use_true_random=False))
def test_no_order_of_arrival_exceeds_the_bound_or_blocks(bound: int, ranks: int, random: Any) -> None:
    """Ranks ask for weights and bring gradients at any moment, or none, and ask again at once: all are taken in the
    end, and nobody who gets weights has a gradient that waits."""
    queue, without = Staleness(bound), 0
    left, state, pushed = dict.fromkeys(range(ranks), 5), dict.fromkeys(range(ranks), "idle"), set[int]()
    for _ in range(2 * 5 * ranks):
        able = [rank for rank in state if state[rank] == "computing" or (state[rank] == "idle" and left[rank])]
        rank = random.choice(able)
        if state[rank] == "idle":
            queue.ask(rank)
            state[rank], left[rank] = "waiting", left[rank] - 1
        else:
            state[rank] = "idle"
            if random.random() < 0.2:
                queue.leave(rank)
                without += 1
            else:
                queue.arrive(rank)
                pushed.add(rank)
        while (todo := queue.next()) is not None:
            what, who = todo
            if what == "take":
                pushed.remove(who)
            else:
                assert who not in pushed
                state[who] = "computing"
    assert sum(queue.histogram) == queue.version == 5 * ranks - without


def test_both_ranks_of_hogwild_change_the_same_weights(two: dict[str, Any]) -> None:
    """A number that every step lowers by a known amount falls further than one rank's steps bring it, and not further
    than both ranks' do; a few steps may overwrite each other."""

    def fallen(steps: int) -> float:
        """By SGD with momentum."""
        velocities = [sum(0.9**before for before in range(step + 1)) for step in range(steps)]
        return -0.01 * sum(velocities)

    assert (fallen(7) + fallen(6)) * (1 + 1e-6) <= two["fallen"]["value"] < fallen(7)
