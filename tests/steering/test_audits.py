"""Audits of a surrogate: a bound that holds as often as it says, and answers that are right however wrong it is.

The made-up alloy: 40 bins of the surrogate's energy hold 1 : 2 : 4 ... configurations, and the truth is another number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from steersman import audits
from steersman.steering.errors import AuditsRefused

BINS = 20
SIZE = 1.5 ** np.arange(BINS) / (1.5 ** np.arange(BINS)).sum()


def audit(n: int, seed: int, noise: float = 0.3, slope: float = 0.8) -> dict[str, np.ndarray]:
    """Scores of n audits of a surrogate that is wrong by a slope and by chance, of all bins alike."""
    rng = np.random.default_rng(seed)
    where = rng.integers(BINS, size=n)
    said = where + rng.random(n)
    whole = {
        "version": 2,
        "scored_by": 2,
        "bins": BINS,
        "ln_error": 0.0,
        "failed": 0,
        "steps": 101,
        "trained_steps": 9000,
    }
    return {
        "truth": slope * said + rng.normal(0, noise, n), "said": said, "bin": where, "ln_size": np.log(SIZE)[where],
        **{name: np.full(n, value) for name, value in whole.items()},
    }  # fmt: skip


def boltzmann(values: dict[str, np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """ln of the mean of exp(-truth), which few bins dominate."""
    factor = np.exp(-values["truth"][audits.audited(values)])
    return lambda weights: np.log(weights @ factor)


def exact(noise: float, slope: float) -> float:
    """The same of all configurations."""
    mean = (np.exp(-slope * np.arange(BINS)) - np.exp(-slope * (np.arange(BINS) + 1))) / slope
    return float(np.log(SIZE @ mean) + noise**2 / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "slope"), [(0.3, 0.8), (1.0, 0.8), (0.3, 1.3)])
def test_an_answer_is_inside_its_interval_however_wrong_the_surrogate_is(noise: float, slope: float) -> None:
    held, away = 0, []
    for seed in range(60):
        values = audit(300, seed, noise, slope)
        found = audits.corrected(values, boltzmann(values))
        held += bool(found.low <= exact(noise, slope) <= found.high)
        away.append(found.value - exact(noise, slope))
    assert binom.cdf(held, 60, 0.93) > 0.01, "too narrow"
    assert abs(np.mean(away)) < 3 * np.std(away) / np.sqrt(60) + 0.05, "biased"


def test_more_audits_give_a_narrower_interval_and_errors_of_the_sizes_a_wider_one() -> None:
    def width(n: int, ln_error: float) -> float:
        values = audit(n, 1)
        values["ln_error"] = np.full(n, ln_error)
        found = audits.corrected(values, boltzmann(values))
        return float(found.high - found.low)

    assert width(1600, 0.0) < 0.7 * width(400, 0.0)
    assert width(1600, 0.5) > 2 * width(1600, 0.0)


@pytest.mark.parametrize("each", [5, 8, 30])
def test_replicates_scatter_as_the_mean_of_the_audits_of_a_bin_does(each: int) -> None:
    """By s^2 / n, however few there are: else the interval is too narrow where a bin has but few audits."""
    values, kept = audit(BINS * each, 4), list[np.ndarray]()
    values["bin"] = np.repeat(np.arange(BINS), each)
    values["ln_size"] = np.log(SIZE)[values["bin"]]

    def answer(weights: np.ndarray) -> np.ndarray:
        kept.append(weights)
        return np.asarray(weights.sum(axis=1))

    audits.corrected(values, answer, replicates=2000)
    of_bins, x = kept[0][1:].reshape(2000, BINS, each), values["truth"].reshape(BINS, each)
    means = (of_bins * x).sum(axis=2) / of_bins.sum(axis=2)
    assert np.mean(means.var(axis=0) / (x.var(axis=1, ddof=1) / each)) == pytest.approx(1.0, abs=0.03)
    np.testing.assert_allclose(of_bins.sum(axis=2), np.tile(SIZE, (2000, 1)))  # and a bin weighs what it holds


def test_the_share_inside_the_bound_is_what_it_claims() -> None:
    shares = [audits.coverage(audit(320, seed))[0] for seed in range(20)]
    assert [len(each.held) for each in shares] == [320 - 19] * 20  # the first ones only calibrate
    assert sum(each.interval[0] <= 0.95 <= each.interval[1] for each in shares) >= 18
    assert not any(each.spoiled for each in shares)


@given(st.integers(0, 10**6))
def test_a_surrogate_that_is_spoiled_is_noticed_at_the_second_audit(seed: int) -> None:
    values = audit(300, seed)
    values["said"][150:] += 20.0
    assert 100 < audits.coverage(values)[0].spoiled <= 152  # sooner only by chance, in 1 of 100 tries


def test_the_interval_of_a_share_holds_it_as_often_as_it_says() -> None:
    low, high = audits.clopper_pearson(np.arange(31), 30)
    assert (low[0], high[-1]) == (0.0, 1.0)
    for share in (0.5, 0.9, 0.97):
        assert 0.95 <= binom.pmf(np.flatnonzero((low <= share) & (share <= high)), 30, share).sum() < 1


@given(st.floats(1, 1e3), st.sampled_from([0.0, 1.0]) | st.floats(1e-6, 1 - 1e-6))
def test_an_interval_holds_the_share_that_it_is_of(n: float, share: float) -> None:
    """Also of events with weights, which are less than one."""
    low, high = audits.clopper_pearson(share * n, n)
    assert 0 <= low <= share <= high <= 1


def test_each_version_is_judged_by_its_own_audits() -> None:
    values = audit(200, 3)
    values["version"] = np.repeat([0, 1, 3, 3], 50)
    values["said"][:50] = 0.0  # no surrogate said anything
    found = audits.coverage(values)
    assert [(each.version, each.frame.tolist()) for each in found] == [(1, [*range(69, 100)]), (3, [*range(119, 200)])]
    for each in found:
        assert np.array_equal(each.error, np.abs(values["truth"] - values["said"])[each.frame])


def test_calls_are_counted_once() -> None:
    values = audit(200, 3)
    values["version"] = np.repeat([0, 1, 2, 2], 50)
    values["steps"] = np.repeat([0, 101, 101, 101], 50)
    values["trained_steps"] = np.repeat([0, 500, 9000, 9000], 50)
    assert audits.saved(values) == audits.Saved(200, 150 * 101 + 500 + 9000)


def refused(values: dict[str, np.ndarray], answer: Any = None) -> bool:
    with pytest.raises(AuditsRefused):
        audits.corrected(values, answer or (lambda weights: weights.sum(-1)))
    return True


def test_what_cannot_be_answered_is_refused() -> None:
    assert refused(audit(99, 1))
    newer = audit(300, 1)
    newer["scored_by"] = np.full(300, 3)  # no audit of this model yet
    assert refused(newer)
    empty = audit(300, 1)
    assert refused({name: each[empty["bin"] != 4] for name, each in empty.items()})
    useless = audit(300, 1)
    assert refused(useless | {"said": -useless["said"]})
    assert refused(useless | {"said": np.zeros(300)})
    for name in ("truth", "said", "ln_size"):
        broken = audit(300, 1)
        broken[name][7] = np.nan
        assert refused(broken)
    assert refused(audit(300, 1), lambda weights: np.full(len(weights), np.nan))
    assert refused({"truth": np.zeros(300)})
    for answer in (lambda weights: 1j * weights.sum(-1), lambda weights: 3.0, lambda weights: weights.T):
        assert refused(audit(300, 1), answer)


ODD: dict[str, dict[str, Any]] = {
    "ln_size that differs within a bin": {"ln_size": lambda each: np.where(np.arange(len(each)) == 0, 5.0, each)},
    "an error below 0": {"ln_error": lambda each: each - 1},
    "half a bin": {"bin": lambda each: each + 0.5 * (np.arange(len(each)) == 0)},
    "a bin below 0": {"bin": lambda each: each - 1},
    "a bin too many": {"bin": lambda each: each + 1},
    "bins of two models": {"bins": lambda each: each + (np.arange(len(each)) == 9)},
    "one number for all": {"bins": lambda each: 20.0},
    "another length": {"said": lambda each: each[:-1]},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_audits_that_do_not_fit_together_are_refused(odd: dict[str, Any]) -> None:
    values = audit(300, 1)
    assert refused(values | {name: change(values[name]) for name, change in odd.items()})


@pytest.mark.parametrize("level", [0, 1, -1, 1.5, np.nan])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        audits.coverage(audit(300, 1), level)


def test_failures_that_many_audits_of_a_bin_share_are_not_left_out_in_silence() -> None:
    values = audit(400, 1)
    values["failed"] = (values["bin"] == 2) & (np.arange(400) % 2 == 0)
    assert refused(values)
    values["failed"] = np.arange(400) == np.flatnonzero(values["bin"] == 2)[0]
    assert audits.corrected(values, lambda weights: weights.sum(-1)).audits == 399


def runs(n: int, seed: int, wrong: float) -> dict[str, np.ndarray]:
    """Scores of n runs of mean 3: a third without a surrogate, then one that is wrong by a slope and a shift."""
    rng = np.random.default_rng(seed)
    truth, version = 3 + rng.gumbel(-np.euler_gamma, 1, n), np.arange(n) > n // 3
    said = np.where(version, (1 - wrong) * truth + 5 * wrong + rng.normal(0, 0.1 + wrong, n), truth)
    failed = version & (rng.random(n) > 0.2)
    return {"truth": np.where(failed, said, truth), "said": said, "version": version, "failed": failed}


@pytest.mark.parametrize("wrong", [0.0, 0.3, 1.0])
def test_a_mean_is_unbiased_and_inside_its_interval_however_wrong_the_surrogate_is(wrong: float) -> None:
    """1,000 repeats of 240 runs; where it is right it counts as many runs as there are, not as were audited."""
    found = [audits.mean(runs(240, seed, wrong)) for seed in range(1000)]
    value, low, high = (np.array([getattr(each, name) for each in found]) for name in ("value", "low", "high"))
    assert abs(value.mean() - 3) < 3 * value.std() / np.sqrt(len(value))
    assert 0.92 < ((low < 3) & (high > 3)).mean() < 0.98
    if not wrong:
        assert value.std() < 1.2 * np.pi / np.sqrt(6 * 240)


def test_the_interval_of_a_mean_holds_also_where_few_were_audited() -> None:
    held, rng = list[bool](), np.random.default_rng(1)
    for _ in range(2000):
        truth, error, failed = rng.normal(0, 0.1, 60), rng.normal(0, 1, 60), np.arange(60) >= 6
        found = audits.mean({"truth": truth, "said": truth + error, "version": np.ones(60), "failed": failed})
        held.append(bool(found.low < 0 < found.high))
    assert 0.93 < np.mean(held) < 0.97


def test_a_mean_is_not_known_before_there_are_audits() -> None:
    values = runs(240, 0, 0.3)
    assert np.isnan(audits.mean({name: column[:4] for name, column in values.items()}).value)
    alone = audits.mean(values | {"failed": values["version"]})
    assert alone.audits == (~values["version"]).sum()
    assert alone.value == pytest.approx(values["truth"][~values["version"]].mean())
