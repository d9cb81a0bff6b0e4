"""What ranks' exchanges take: the line through them is the one that they lie on, and real ones lie on some line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from steersman.benchmarks import collectives
from steersman.benchmarks.collectives import SIZES, alpha_beta, exchanged
from steersman.models.ranks.launch import Membership, joined
from steersman.system.errors import BadValue


@settings(max_examples=20)
@given(st.floats(1e-6, 1e-3), st.floats(2**14, 2**22), st.integers(0, 10**6))
def test_the_fit_finds_alpha_and_beta_of_noisy_times(alpha: float, middle: float, seed: int) -> None:
    """Of messages that take twice alpha at `middle` bytes, with 5 % of noise; each is known from 3 sizes or more."""
    beta = alpha / middle
    noise = np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(SIZES)))
    found = alpha_beta(SIZES, ((alpha + beta * np.array(SIZES)) * noise).tolist())
    assert found["alpha_s"] == pytest.approx(alpha, rel=0.25)
    assert found["beta_s_per_byte"] == pytest.approx(beta, rel=0.25)
    assert found["relative_error"] < 0.12


def test_the_fit_of_exact_times_is_exact() -> None:
    found = alpha_beta(SIZES, [5e-5 + 2e-10 * size for size in SIZES])
    assert (found["alpha_s"], found["beta_s_per_byte"]) == pytest.approx((5e-5, 2e-10))
    assert found["relative_error"] < 1e-6


def test_every_operation_is_measured() -> None:
    """In a group of one, which needs no processes."""
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    with joined(Membership(0, 1, 0, "127.0.0.1", store.port, False), timeout_s=30):
        card = exchanged([1024, 2**20]).card
    assert card["backend"] == "gloo"
    for name in ("allreduce", "broadcast", "allgather"):
        by_size = card[name]["bytes"]
        assert set(by_size) == {"1024", str(2**20)}
        for size, figures in by_size.items():
            assert figures["gb_per_s"] * figures["took_s"] == pytest.approx(int(size) / 1e9, rel=0.02)


def test_one_rank_is_refused() -> None:
    with pytest.raises(BadValue):
        collectives.main(["--ranks", "1"])
