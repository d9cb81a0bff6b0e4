"""Splitting by a forecast: weights keep their sum, and every probability is right however wrong the forecast is.

The process is that of Ornstein and Uhlenbeck, x' = r x + sqrt(1 - r^2) n, of variance 1, so that the probability of
x > a at the end of a window and the forecast of it at any time before are exact.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from steersman.steering import NEW, Candidate, Scores, Splitting
from steersman.steering.errors import NoAnswerYet
from steersman.steering.splitting import interval, split, worths

MEMORY, WINDOW = 0.8, 5
ESTIMATES, WINDOWS = 400, 20


class Process:
    """A run of rounds of members, as the engine makes one: candidates of a policy -> scores of what came of them."""

    def __init__(self, policy: Splitting, forecast: str, seed: int) -> None:
        self.policy, self.forecast, self.rng = policy, forecast, np.random.default_rng(seed)
        self.rounds: list[dict[str, np.ndarray]] = []

    def run(self, windows: int) -> Scores:
        """The scores of the ends of so many windows."""
        while len(self.rounds) < windows * self.policy.window:
            self.simulate(self.policy.rank(self.newest, self.rng))
        return self.scores(*range(self.policy.window, len(self.rounds) + 1, self.policy.window))

    @property
    def newest(self) -> Scores:
        """Of the newest round, and of the one before that was a segment older: all that a choice looks at."""
        now = len(self.rounds)
        return self.scores(*(each for each in (now - self.policy.window + 1, now) if each > 0))

    def scores(self, *rounds: int) -> Scores:
        made = [self.rounds[each - 1] for each in rounds]
        joined = {name: np.concatenate([each[name] for each in made]) for name in (made[0] if made else ())}
        n = len(joined.get("weight", ()))
        shown = ("outcome",) if self.forecast == "none" else ("outcome", "mean", "spread")
        values = {name: joined[name] for name in shown if name in joined}
        weight, number, root = (joined.get(name, np.empty(0, int)) for name in ("weight", "round", "root"))
        at = np.arange(n)
        return Scores(at, at, at, at, np.ones(n, bool), values, 1, weight=weight, round=number, root=root)

    def simulate(self, members: list[Candidate]) -> None:
        index, count = np.array([each.index for each in members]), len(members)
        fresh, before = index == NEW, self.newest
        x, root = self.rng.standard_normal(count), 10**6 * len(self.rounds) + np.arange(count)
        if not fresh.all():
            x, root = before.column("outcome")[index], before.root[index]
        x = MEMORY * x + math.sqrt(1 - MEMORY**2) * self.rng.standard_normal(count)
        window, age = divmod(len(self.rounds), self.policy.window)
        left = self.policy.window - age - 1
        mean, spread = MEMORY**left * x, np.full(count, math.sqrt(1 - MEMORY ** (2 * left)))
        if self.forecast == "noise":
            mean = self.rng.standard_normal(count)
        if self.forecast == "opposite" or (self.forecast == "changing" and window % 2):
            mean = -mean
        weight, number = np.array([each.weight for each in members]), np.full(count, len(self.rounds) + 1)
        columns = {"weight": weight, "round": number, "root": root}
        self.rounds.append({"outcome": x, "mean": mean, "spread": spread, **columns})


@pytest.mark.slow
@pytest.mark.parametrize(("forecast", "p"), [("right", 1e-3), ("noise", 0.2), ("opposite", 0.2), ("changing", 0.2)])
def test_the_probability_is_right_whatever_the_forecast_says(forecast: str, p: float) -> None:
    """A wrong forecast has weights up to 1 / defensive of plain ones, and the event is to be met often all the same."""
    policy = Splitting("outcome", above=-ndtri(p), window=WINDOW, members=32)
    estimates = [policy.estimate(Process(policy, forecast, seed).run(WINDOWS)) for seed in range(ESTIMATES)]
    values = np.array([each.probability for each in estimates])
    assert abs(values.mean() - p) < 2.6 * values.std() / math.sqrt(ESTIMATES)
    few = [each.too_few for each in estimates]
    held = [each.low <= p <= each.high or each.too_few for each in estimates]
    assert np.mean(held) >= 0.93
    assert np.mean(few) <= 0.5


def test_a_good_forecast_is_worth_many_plain_members() -> None:
    p = 1e-3
    policy = Splitting("outcome", above=-ndtri(p), window=WINDOW, members=64)
    one = [policy.estimate(Process(policy, "right", seed).run(2)).probability for seed in range(200)]
    assert np.var(one) < p / (64 * 2) / 5, "plain sampling has p / n"


def test_without_a_forecast_it_is_plain_sampling_and_says_so() -> None:
    policy = Splitting("outcome", above=1.0, window=4, members=16)
    process = Process(policy, "none", 1)
    for _ in range(9):
        assert bool(policy.warning(process.newest)) == (len(process.rounds) in (4, 8))
        process.simulate(policy.rank(process.newest, process.rng))
    assert {weight for each in process.rounds for weight in each["weight"]} == {1 / 16}


def test_each_window_begins_with_new_members_spread_evenly() -> None:
    policy = Splitting("outcome", window=3, members=8)
    process = Process(policy, "right", 1)
    process.run(2)
    fresh = policy.rank(process.newest, process.rng)
    assert {each.index for each in fresh} == {NEW}
    points = [each.draw["point"][0] for each in fresh]  # type: ignore[index]
    assert [math.floor(8 * point) for point in points] == list(range(8))


def test_a_window_that_lost_a_member_does_not_count_and_no_other_begins_after_it() -> None:
    policy = Splitting("outcome", window=3, members=8)
    process = Process(policy, "right", 1)
    before = policy.estimate(process.run(3))
    process.run(4)
    last = {name: column[1:] for name, column in process.rounds[-1].items()}
    process.rounds[-1] = last
    assert sum(each.weight for each in policy.rank(process.newest, process.rng)) == pytest.approx(last["weight"].sum())
    assert policy.estimate(process.scores(3, 6, 9, 12)) == before


def test_an_estimate_of_one_lucky_member_says_that_it_is_too_few() -> None:
    policy = Splitting("outcome", above=-ndtri(1e-4), window=WINDOW, members=16)
    estimates = [policy.estimate(Process(policy, "none", seed).run(12)) for seed in range(40)]
    assert all(each.too_few for each in estimates if each.events < 3)
    with pytest.raises(NoAnswerYet):
        policy.estimate(Process(policy, "none", 1).run(1))


def test_copies_of_one_first_member_count_as_one_and_windows_that_nothing_split_are_left_out() -> None:
    """Those before the first one that was split, and this one. A later one whose members are all worth the same is not
    left out: often nothing comes of any of them. Two brothers of window 3 have half of the probability."""
    policy = Splitting("x", window=1, members=5)
    window, n = np.repeat([1, 2, 3, 4], 5), 20
    weight = np.array([0.2] * 5 + [0.1, 0.1, 0.1, 0.1, 0.6] * 2 + [0.2] * 5)
    hit = np.array([1.0] * 10 + [1, 1, 0, 0, -1] + [1, 0, 0, 0, 0])
    root = np.array([1, 2, 3, 4, 5] + [6] * 5 + [7, 7, 8, 8, 8] + [9, 10, 11, 12, 13])
    at = np.arange(n)
    found = policy.estimate(
        Scores(at, at, at, at, np.ones(n, bool), {"x": hit - 0.5}, 1, weight=weight, round=window, root=root)
    )
    assert (found.windows, found.events) == (2, 3)
    assert found.probability == pytest.approx(0.2)
    assert found.largest_window == pytest.approx(0.5)
    assert found.largest_member == pytest.approx(0.5), "not a quarter: two brothers have half of it"


@example([(1.0, 0.0, 0.0), (1.0, 1.0, 0.0)], 1, 0.0, 0)  # one that takes no stretch
@given(
    st.lists(st.tuples(st.floats(1e-6, 1), st.floats(0, 1), st.floats(-5, 5)), min_size=1, max_size=40),
    st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32),
)  # fmt: skip
def test_weights_keep_their_sum_and_nobody_is_much_heavier(
    members: list[tuple[float, float, float]], copies: int, defensive: float, seed: int
) -> None:
    weight, worth, order = (np.array(each) for each in zip(*members, strict=True))
    found = split(weight, worth, order, copies, defensive, np.random.default_rng(seed))
    assert math.fsum(w for _, w in found) == pytest.approx(weight.sum(), rel=1e-12)
    assert all(w > 0 and 0 <= i < len(weight) for i, w in found)
    assert len(found) <= copies
    if defensive > 0.01:
        assert max(w for _, w in found) <= weight.sum() / copies / defensive * (1 + 1e-9)


def test_a_split_changes_no_average_in_expectation() -> None:
    rng = np.random.default_rng(1)
    weight, worth, order = rng.random(9), rng.random(9) ** 4, rng.standard_normal(9)
    total, many = np.zeros(9), 20_000
    for _ in range(many):
        for i, w in split(weight, worth, order, 6, 0.1, rng):
            total[i] += w
    error = np.sqrt(weight * weight.sum() / many)
    assert (np.abs(total / many - weight) < 4 * error).all()


def test_the_worth_is_the_root_of_the_mean_square_of_tomorrows_probability() -> None:
    rng = np.random.default_rng(1)
    mean, spread, later = np.array([-2.0, 0.0, 1.5]), np.array([1.0, 1.0, 0.7]), np.array([0.8, 0.0, 0.69])
    tomorrow = mean + np.sqrt(spread**2 - later**2) * rng.standard_normal((400_000, 3))
    q = ndtr((tomorrow - 0.5) / np.maximum(later, 1e-12))
    np.testing.assert_allclose(worths(mean, spread, later, 0.5), np.sqrt((q**2).mean(0)), rtol=0.02)


def test_an_interval_of_skewed_windows_lies_further_above_than_below() -> None:
    low, high = interval(np.array([1e-4, 2e-4, 1e-3, 5e-5]))
    mean = 3.375e-4
    assert high - mean > mean - low > 0
    assert interval(np.zeros(5)) == (0.0, 1.0)
