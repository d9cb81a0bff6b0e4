"""Policies by merit: each ranks first what its source says, on frames where that is known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.steering import (
    Dbscan,
    Diverse,
    ExpectedImprovement,
    Fast,
    Highest,
    Hopeless,
    Importance,
    Reap,
    Scores,
    Unsure,
    WeightedEnsemble,
)
from steersman.steering.merit import farthest_first


def table(**values: np.ndarray) -> Scores:
    n = len(next(iter(values.values())))
    return Scores(np.zeros(n, int), np.arange(n), np.arange(n), np.zeros(n, int), np.zeros(n, bool), values, 1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_committees_disagree_most_where_the_score_is_highest(rng: np.random.Generator) -> None:
    assert Highest("u").rank(table(u=np.array([0.1, 0.9, 0.5])), rng)[0].index == 1


def test_who_asks_for_one_number_of_each_frame_is_not_given_the_first_of_several(rng: np.random.Generator) -> None:
    """Not the first column of a latent space, say, without a word."""
    n, several = 300, np.random.default_rng(1).random((300, 2))
    one = {name: np.ones(n) for name in ("one", "whole", "weight", "trust")}
    scores = replace(table(**one, point=several, z=several), weight=np.ones(n) / n, round=np.ones(n, int))
    storms, rows = Importance("z", 0.0, 2), np.arange(n)
    asked = [Highest("z"), Fast("z", "one"), ExpectedImprovement("z", "one"), ExpectedImprovement("one", "z")]
    for rank in (*(each.rank for each in asked), Unsure("z", 2).rank, storms.rank, Importance("one", 0.0, 2, "z").rank):
        with pytest.raises(ValueError, match="z has 2"):
            rank(scores, rng)
    for ask in (
        lambda: Hopeless("z").reason(scores, rows[:3]),
        lambda: storms.estimate(scores),
        lambda: WeightedEnsemble("z").bins(scores),
        lambda: WeightedEnsemble("one", target="z").rank(replace(scores, ends=scores.ends | True), rng),
        lambda: WeightedEnsemble("one", target="z").warning(scores),
    ):
        with pytest.raises(ValueError, match="z has 2"):
            ask()


@given(st.floats(-3, 3), st.floats(0.01, 3))
def test_expected_improvement_is_the_mean_of_what_lies_above_the_best(mean: float, deviation: float) -> None:
    """By quadrature over the surrogate's normal distribution; the best known mean is 3."""
    policy = ExpectedImprovement("m", "s")
    merit = policy.merit(table(m=np.array([mean, 3.0]), s=np.array([deviation, 0.0])), np.random.default_rng(0))
    x = np.linspace(-8, 8, 20_001)
    weight = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    exact = np.trapezoid(np.maximum(mean + deviation * x - 3.0, 0) * weight, x)
    assert merit[0] == pytest.approx(exact, abs=1e-5)


def test_reap_goes_out_in_the_one_direction_that_pays(rng: np.random.Generator) -> None:
    """A long corridor in x: rare frames lie far out in x, and y is noise."""
    z = np.stack([rng.standard_t(2, 2000), rng.uniform(-1, 1, 2000)], 1)
    first = [c.index for c in Reap("z").rank(table(z=z), rng)[:5]]
    assert set(first) == set(np.argsort(-np.abs(z[:, 0] - z[:, 0].mean()))[:5])


def test_fast_follows_the_score_alone_without_exploration_and_rarity_among_equal_scores(
    rng: np.random.Generator,
) -> None:
    z, good = np.concatenate([np.zeros(99), [5.0]]), rng.random(100)
    assert Fast("good", "z", explore=0.0).rank(table(z=z, good=good), rng)[0].index == good.argmax()
    assert Fast("good", "z").rank(table(z=z, good=np.ones(100)), rng)[0].index == 99


def test_dbscan_proposes_what_belongs_to_no_cluster_and_nothing_else(rng: np.random.Generator) -> None:
    z = np.concatenate([rng.normal(0, 0.1, (200, 2)), rng.normal(5, 0.1, (200, 2)), [[2.5, 2.5], [9.0, 0.0]]])
    ranking = Dbscan("z", share=0.01).rank(table(z=z), rng)
    assert {c.index for c in ranking[:2]} == {400, 401}
    assert len(ranking) <= 8


def test_a_diverse_batch_takes_one_of_each_cluster_before_a_second_of_any(rng: np.random.Generator) -> None:
    z = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0) + rng.normal(0, 0.01, (60, 2))
    policy = Diverse(Highest("u"), "z")
    ranking = policy.rank(table(z=z, u=np.arange(60.0)), rng)
    assert ranking[0].index == 59
    assert {c.index // 20 for c in ranking[:3]} == {0, 1, 2}
    assert sorted(c.index for c in ranking) == list(range(60))


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=20))
def test_farthest_first_is_a_permutation_whose_steps_shrink(points: list[tuple[float, float]]) -> None:
    """Gonzalez: the distance to those before never grows, which bounds the cover by twice the best one."""
    x = np.array(points)
    order = farthest_first(x)
    assert sorted(order) == list(range(len(x)))
    gaps = [min(np.linalg.norm(x[i] - x[j]) for j in order[:k]) for k, i in enumerate(order) if k]
    assert all(a >= b - 1e-9 for a, b in pairwise(gaps))
