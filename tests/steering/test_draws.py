"""Members are drawn where a model is unsure, in proportion to what is expected there; what is held out says nothing."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from steersman.steering import (
    NEW,
    Decider,
    Highest,
    Importance,
    LatinHypercube,
    Policy,
    Scores,
    Steering,
    Unsure,
    latin_hypercube,
)
from steersman.steering.protocols import AT_RANDOM


def scored(points: np.ndarray, unsure: np.ndarray, held_out: np.ndarray | None = None) -> Scores:
    n = len(points)
    none = np.zeros(n, int)
    held_out = np.zeros(n, bool) if held_out is None else held_out
    values = {"unsure": unsure, "point": points}
    return Scores(none, np.arange(n), np.arange(n), none, np.ones(n, bool), values, 1, held_out=held_out)


def drawn(policy: Unsure, scores: Scores, rankings: int = 20) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.array([each.draw["point"] for _ in range(rankings) for each in policy.rank(scores, rng)])


@pytest.fixture
def halves() -> Scores:
    """A score of 3 where the first parameter is above 0.5, of 1 elsewhere."""
    points = np.random.default_rng(1).random((4000, 2))
    return scored(points, np.where(points[:, 0] > 0.5, 3.0, 1.0))


@pytest.mark.parametrize(("power", "explore"), [(1, 0.0), (1, 0.5), (2, 0.2), (0, 0.0), (1, 1.0)])
def test_members_are_drawn_in_proportion_to_the_score_and_a_share_evenly(
    halves: Scores, power: float, explore: float
) -> None:
    """Within four standard errors of as many draws, and 0.01 for the border, where neighbours are on both sides."""
    found = drawn(Unsure("unsure", 2, explore=explore, power=power), halves)
    wanted = (1 - explore) * 3**power / (3**power + 1) + explore / 2
    assert np.mean(found[:, 0] > 0.5) == pytest.approx(wanted, abs=0.01 + 4 * 0.5 / np.sqrt(len(found)))
    assert found.min() >= 0
    assert found.max() < 1


def test_frames_of_a_member_count_as_one() -> None:
    """A point has the mean of its nearest members, however many frames each has; that of a member is of its frames."""
    rng = np.random.default_rng(4)
    points, unsure = rng.random((40, 2)), rng.random(40)
    often = np.repeat(np.arange(40), rng.integers(1, 30, size=40))
    once = Unsure("unsure", 2).rank(scored(points, unsure), np.random.default_rng(0))
    scattered = unsure[often] * np.array([1 + (-1) ** i * 0.5 for i in range(len(often))])
    mean = np.bincount(often, scattered) / np.bincount(often)
    many = Unsure("unsure", 2).rank(scored(points[often], scattered), np.random.default_rng(0))
    same = Unsure("unsure", 2).rank(scored(points, mean), np.random.default_rng(0))
    assert [each.draw for each in many] == [each.draw for each in same] != [each.draw for each in once]
    assert [each.value for each in many] == pytest.approx([each.value for each in same])


def test_a_batch_does_not_fall_on_one_spot() -> None:
    """The score is high in a hundredth of the square: a batch covers all of it, not its highest point."""
    points = np.random.default_rng(1).random((4000, 2))
    scores = scored(points, np.where((points < 0.1).all(1), 1.0 + points[:, 0], 0.0))
    batch = drawn(Unsure("unsure", 2, explore=0.0), scores, rankings=1)
    assert len(np.unique(batch, axis=0)) == len(batch)
    assert ((batch > 0.15).any(1)).mean() < 0.02
    assert len(np.unique(np.floor(batch[(batch < 0.1).all(1)] / 0.025), axis=0)) == 16


def test_what_is_held_out_is_not_looked_at(halves: Scores) -> None:
    high = halves.values["unsure"] > 1
    told = scored(halves.values["point"][~high], halves.values["unsure"][~high])
    policy, rng = Unsure("unsure", 2), np.random.default_rng(0)
    masked = scored(halves.values["point"], halves.values["unsure"], held_out=high)
    assert policy.rank(masked, rng) == policy.rank(told, np.random.default_rng(0))


def test_members_are_drawn_evenly_before_there_are_scores_and_none_twice() -> None:
    none = np.empty(0, int)
    empty = Scores(none, none, none, none, none.astype(bool))
    decider = Decider(Steering(Unsure("unsure", 3)))
    rng = np.random.default_rng(0)
    chosen = [decider.choose(empty, rng).candidate for _ in range(600)]
    assert all(each is not None and each.index == NEW for each in chosen)
    points = np.array([each.draw["point"] for each in chosen if each is not None])
    assert len(np.unique(points, axis=0)) == 600
    assert np.abs(points.mean(0) - 0.5).max() < 4 / np.sqrt(12 * 600)


@pytest.mark.parametrize("policy", [Unsure("unsure", 2), Importance("unsure", 1.0, 2)])
def test_members_that_are_drawn_without_looking_are_not_the_policys_own(policy: Policy) -> None:
    """A comparison of such runs compares plain sampling with itself, and says so."""
    steering, rng = Steering(policy), np.random.default_rng(0)
    few = scored(rng.random((3, 2)), np.ones(3))
    blind = [Decider(steering).choose(few, rng).policy for _ in range(5)]
    assert steering.own(Counter(blind)) == 0


def test_members_that_are_drawn_by_a_score_are_the_policys_own(halves: Scores) -> None:
    steering, rng = Steering(Unsure("unsure", 2)), np.random.default_rng(0)
    assert steering.own(Counter(Decider(steering).choose(halves, rng).policy for _ in range(5))) == 5


@pytest.mark.parametrize("unsure", [np.zeros(100), np.full(100, 7.0)])
def test_a_score_that_is_the_same_everywhere_draws_evenly(unsure: np.ndarray) -> None:
    points = np.random.default_rng(1).random((100, 2))
    assert np.abs(drawn(Unsure("unsure", 2), scored(points, unsure)).mean(0) - 0.5).max() < 0.02


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_a_hypercube_are_drawn_each_once_and_those_of_others_when_all_are_scored(dtype: type) -> None:
    """Simulations may store a point in single precision."""
    policy, rng, points = LatinHypercube(3, members=40), np.random.default_rng(0), np.empty((0, 3))
    for known in (0, 7, 33, 40, 52, 79, 80):
        scores = scored(points[:known].astype(dtype), np.ones(known))
        fresh = np.array([each.draw["point"] for each in policy.rank(scores, rng)])
        assert len(fresh) == 40 - known % 40
        points = np.concatenate([points[:known], fresh])
        assert (np.sort(np.floor(points[-40:] * 40), axis=0) == np.arange(40)[:, None]).all()
        assert len(np.unique(points, axis=0)) == len(points)


@pytest.mark.parametrize("policy", [Unsure("doubt", 2), Unsure("doubt", 2) | Highest("doubt")], ids=str)
def test_before_its_score_is_there_members_are_drawn_evenly(policy: Policy, halves: Scores) -> None:
    """As with early scores, before the first model."""
    drawn, nothing = (policy.proposals(each, np.random.default_rng(0)) for each in (halves, replace(halves, values={})))
    assert drawn == nothing
    assert {each.policy for each in drawn} == {AT_RANDOM}
    assert not Highest("doubt").proposals(halves, np.random.default_rng(0))
    with_its_own = (Unsure("doubt", 2) | Highest("unsure")).proposals(halves, np.random.default_rng(0))
    assert {each.policy for each in with_its_own} == {AT_RANDOM, "Highest"}


def test_a_score_below_zero_is_refused(halves: Scores) -> None:
    with pytest.raises(ValueError, match="-3"):
        Unsure("unsure", 2).rank(scored(halves.values["point"], -halves.values["unsure"]), np.random.default_rng(0))


@pytest.mark.parametrize("wrong", [{"dimensions": 0}, {"explore": 1.1}, {"power": -1.0}, {"neighbours": 0}])
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"Unsure"):
        Unsure(**({"score": "unsure", "dimensions": 2} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize(("draws", "dimensions"), [(1, 1), (60, 6)])
def test_a_latin_hypercube_has_one_point_in_each_slice_of_every_axis(draws: int, dimensions: int) -> None:
    points = latin_hypercube(draws, dimensions)
    assert np.array_equal(np.sort(np.floor(points * draws), axis=0), np.tile(np.arange(draws)[:, None], dimensions))
    assert np.array_equal(points, latin_hypercube(draws, dimensions))
    assert not np.array_equal(points, latin_hypercube(draws, dimensions, seed=1))
