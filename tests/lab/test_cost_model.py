"""The cost model of training on many ranks: on times whose law is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost_model import PREDICTED, CostModel, from_first

seconds = st.floats(1e-6, 10)


@given(seconds, seconds, seconds)
def test_the_fit_finds_the_law_that_made_the_times(compute: float, latency: float, bandwidth: float) -> None:
    """From two numbers of ranks, as there are two terms."""
    true = CostModel(compute, latency, bandwidth)
    found = CostModel.fitted(compute, {p: true.seconds(p) - compute / p for p in (2, 4)})
    assert found.seconds(1_000) == pytest.approx(true.seconds(1_000), rel=1e-4, abs=1e-6)


@given(seconds, st.lists(seconds, min_size=2, max_size=2), st.integers(1, 64))
def test_efficiency_begins_at_one_and_falls(compute: float, times: list[float], syncs: int) -> None:
    """Whatever was measured, also where four ranks were faster than two."""
    model = CostModel.fitted(compute, dict(zip((2, 4), times, strict=True)), syncs)
    shares = [model.efficiency(p) for p in (1, *PREDICTED)]
    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


def test_the_paper_s_first_figure_predicts_its_second() -> None:
    """75 % on 1,500 GPUs: S/A is 1/4500. With a constant S 10,000 GPUs come to 1 / (1 + 10000/4500) = 31 %; 35 % is the
    paper's."""
    assert from_first(1_500, grows=False) == from_first(1_500, grows=True) == pytest.approx(0.75)
    assert from_first(10_000, grows=False) == pytest.approx(1 / (1 + 10_000 / 4_500))
    assert from_first(10_000, grows=True) < from_first(10_000, grows=False)
