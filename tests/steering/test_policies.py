"""Policies are pure functions: what they rank first is what their definition says, and they combine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman import steering
from steersman.steering import (
    Candidate,
    Dbscan,
    Decider,
    Frontier,
    Importance,
    LeastCounts,
    LocalOutlierFactor,
    Novelty,
    Policy,
    Random,
    Scores,
    SegmentRule,
    Steering,
    Target,
    Unsteered,
    Unsure,
)
from steersman.steering.streams import decision_rng
from tests.steering import examples


def scores(z: np.ndarray, *, starts: np.ndarray | None = None, ends: np.ndarray | None = None) -> Scores:
    n = len(z)
    starts = np.zeros(n, int) if starts is None else starts
    ends = np.zeros(n, bool) if ends is None else ends
    return Scores(np.zeros(n, int), np.arange(n), np.arange(n) // 10, starts, ends, {"z": z}, 1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def cloud_and_one() -> Scores:
    """199 points near the origin and one, number 57, far away."""
    z = np.random.default_rng(1).normal(size=(200, 2))
    z[57] = (30.0, 30.0)
    return scores(z)


@pytest.mark.parametrize("policy", [LocalOutlierFactor("z"), Novelty("z", bins=8), LeastCounts("z", states=8)])
def test_the_lonely_frame_is_proposed_first(policy: Policy, cloud_and_one: Scores, rng: np.random.Generator) -> None:
    ranking = policy.rank(cloud_and_one, rng)[:20]
    first = [candidate.index for candidate in ranking]
    assert 57 in (first[:1] if isinstance(policy, LocalOutlierFactor) else first)
    assert not any("1 frames" in candidate.reason for candidate in ranking), "a lonely frame is one"


def test_points_that_hardly_differ_are_as_few_states_as_they_are(rng: np.random.Generator) -> None:
    """Of which scikit-learn would warn the person at the terminal."""
    x = np.concatenate([np.zeros(50), np.arange(8.0), 1 + 1e-13 * np.arange(5)])
    first = LeastCounts("z", states=12).rank(scores(np.stack([x, x], axis=1)), rng)[0]
    assert x[first.index] > 1 + 1e-9, "one of those that are alone"


def test_target_proposes_the_nearest_and_marks_the_run_guided(cloud_and_one: Scores, rng: np.random.Generator) -> None:
    policy = Target("z", (30.0, 29.0))
    assert policy.rank(cloud_and_one, rng)[0].index == 57
    assert policy.guided
    assert (Novelty("z") | policy).guided
    assert not (Novelty("z") | Random()).guided
    assert Steering(policy).guided


def test_unsteered_continues_each_ended_segment_once_and_exactly(rng: np.random.Generator) -> None:
    ends, starts = np.zeros(30, bool), np.zeros(30, int)
    ends[[9, 19, 29]] = True
    starts[19] = 1
    ranking = Unsteered().rank(scores(np.zeros((30, 2)), starts=starts, ends=ends), rng)
    assert [candidate.index for candidate in ranking] == [9, 29]
    assert all(candidate.exact for candidate in ranking)


@pytest.mark.parametrize("policy", examples.POLICIES, ids=lambda policy: policy.name)
def test_a_policy_is_a_function_of_scores_and_random_state(policy: Policy, cloud_and_one: Scores) -> None:
    table = examples.table(cloud_and_one.matrix("z"))
    rankings = [policy.rank(table, np.random.default_rng(5)) for _ in range(2)]
    assert rankings[0] == rankings[1]
    assert all(name in table.values for name in policy.needs)


class Asked(dict[str, np.ndarray]):
    """Scores that remember which of them were looked at."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        super().__init__(values)
        self.names = set[str]()

    def __getitem__(self, name: str) -> np.ndarray:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize(
    "policy",
    [*examples.POLICIES, Importance("x", 0.5, 2, whole="whole"), Unsure("deviation", 2)],
    ids=lambda policy: policy.name,
)
def test_a_policy_names_every_score_that_it_looks_at(policy: Policy, cloud_and_one: Scores) -> None:
    """Or a misspelt one is found by nobody before the run, and members are drawn at random to its end."""
    table, ones = examples.table(z := cloud_and_one.matrix("z")), np.ones(len(z))
    asked = Asked({**table.values, "point": z, "weight": ones, "trust": ones, "whole": ones})
    policy.rank(replace(table, values=asked), np.random.default_rng(5))
    assert asked.names <= set(policy.needs)


@pytest.mark.parametrize("policy", examples.POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("unit", [2.0**-80, 2.0**40])
def test_in_what_units_scores_are_does_not_matter(policy: Policy, cloud_and_one: Scores, unit: float) -> None:
    """Energies in joules are some 1e-21."""
    plain, other = (examples.table(cloud_and_one.matrix("z") * scale) for scale in (1.0, unit))
    ranked = [[each.index for each in policy.rank(table, np.random.default_rng(5))[:50]] for table in (plain, other)]
    assert ranked[0] == ranked[1]


@pytest.mark.parametrize("policy", examples.POLICIES, ids=lambda policy: policy.name)
def test_few_or_equal_frames_disturb_nobody(policy: Policy, rng: np.random.Generator) -> None:
    for n in (1, 5, 40):
        assert all(0 <= c.index < n for c in policy.rank(examples.table(np.zeros((n, 2))), rng))


def test_frames_not_started_from_come_before_the_others(rng: np.random.Generator) -> None:
    z = np.random.default_rng(1).normal(size=(100, 2))
    starts = np.ones(100, int)
    starts[[3, 4]] = 0
    first = [candidate.index for candidate in Novelty("z").rank(scores(z, starts=starts), rng)[:2]]
    assert sorted(first) == [3, 4]


def test_combined_policies_take_turns_and_propose_a_frame_once(cloud_and_one: Scores, rng: np.random.Generator) -> None:
    both = LocalOutlierFactor("z") | Target("z", (0.0, 0.0))
    ranking = both.rank(cloud_and_one, rng)
    order = [candidate.policy for candidate in ranking[:4]]
    assert sorted(order[:2]) == ["LocalOutlierFactor", "Target"]
    assert order[2:] == order[:2]
    assert len({candidate.index for candidate in ranking}) == len(ranking)
    assert both.needs == ("z",)
    assert (both | Random()).name == "LocalOutlierFactor | Target | Random"


NAMED = [getattr(steering, name) for name in dir(steering)]
KINDS = [each for each in NAMED if isinstance(each, type) and issubclass(each, Policy | SegmentRule)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_count_that_is_none_is_refused_where_it_is_written(kind: Any) -> None:
    """And not by the run's first ranking; the last 0 frames, say, would be all of them."""
    arguments = {"vocs": None, "make": None, "policy": Random(), "dimensions": 2, "members": 2, "threshold": 0.0}
    known = signature(kind).parameters
    given = {name: arguments.get(name, "z") for name in known if known[name].default is Parameter.empty}
    for name in (name for name in known if known[name].annotation == "int"):
        for wrong in (0, -3, 2.5, float("nan"), "7", True):
            with pytest.raises(ValueError, match=name):
                kind(**given | {name: wrong})


@dataclass(frozen=True)
class Gives(Policy):
    made: Callable[[], Any]

    def rank(self, scores: Scores, rng: np.random.Generator) -> Any:
        return self.made()


@pytest.mark.parametrize(
    "wrong",
    [{"policy": 3}, {"reason": None}, {"value": "high"}, {"index": 1.5}, {"weight": -3.0}, {"weight": float("nan")},
     {"draw": [1.0]}, {"index": 100}, {"index": -5}],
    ids=str,
)  # fmt: skip
def test_a_candidate_that_cannot_be_written_down_is_the_policys_trouble(wrong: dict[str, Any]) -> None:
    """And no record of the journal that nobody can read; the fallback chooses."""
    z = np.zeros((100, 1))
    good: dict[str, Any] = {"index": 1, "policy": "Gives", "value": 1.0, "reason": "it is good"}
    for made in (lambda: [Candidate(**good | wrong)], lambda: None, lambda: [1, 2], lambda: "none"):
        decider = Decider(Steering(Gives(made), fallback=Random()))
        assert decider.choose(scores(z), decision_rng(1, 1)).policy == "Random"
        assert isinstance(decider.trouble, TypeError | ValueError)
    decider = Decider(Steering(Gives(lambda: (Candidate(**good) for _ in range(3)))))
    assert decider.choose(scores(z), decision_rng(1, 1)).policy == "Gives", "an iterator is as good as a list"


class Near(Target):
    """It ranks as its base does, by another name."""


def test_each_of_two_policies_has_its_turns_though_every_choice_sees_new_scores() -> None:
    """As without rounds, where scores come between any two starts; and where both rank the same frames first."""
    z = np.random.default_rng(1).normal(size=(100, 1))
    for policy, names in (
        (Random() | Novelty("z"), ("Random", "Novelty")),
        (Target("z") | Near("z"), ("Target", "Near")),
    ):
        decider = Decider(Steering(policy))
        chosen = [decider.choose(scores(z), decision_rng(1, n)) for n in range(200)]
        assert all(abs([each.policy for each in chosen].count(name) - 100) < 30 for name in names)
        assert {each.refused[0].policy for each in chosen} == set(names), "the one whose turn is next"


def test_equal_points_do_not_disturb_the_outlier_factor(rng: np.random.Generator) -> None:
    z = np.repeat(np.random.default_rng(1).normal(size=(40, 2)), 10, axis=0)
    z[123] = (20.0, 20.0)
    assert LocalOutlierFactor("z").rank(scores(z), rng)[0].index == 123


def test_a_place_that_was_met_often_is_no_outlier(rng: np.random.Generator) -> None:
    z = np.random.default_rng(1).normal(size=(400, 2))
    z[100:130] = (20.0, 20.0)  # far away, but known
    z[57] = (0.0, 12.0)
    assert LocalOutlierFactor("z", neighbours=20).rank(scores(z), rng)[0].index == 57


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=60), st.integers(1, 30))
def test_cells_partition_the_frames(points: list[tuple[float, float]], bins: int) -> None:
    table = scores(np.array(points))
    occupied = table.occupied_cells("z", bins)
    assert 1 <= occupied <= min(len(points), bins**2)
    assert table.crowd("z", bins).max() <= len(points)
    assert np.isclose((1 / table.crowd("z", bins)).sum(), occupied)


def test_a_grid_spans_the_range_of_each_dimension() -> None:
    """In whatever unit a score is: on a diagonal each of 20 frames has a cell of its own."""
    diagonal = np.arange(20.0)[:, None]
    assert scores(diagonal * (1, 1024)).occupied_cells("z", 20) == 20
    z = np.random.default_rng(1).integers(0, 64, (300, 2)).astype(float)
    assert scores(z).cells("z").tolist() == scores(z * (1, 1024) + (0, 4096)).cells("z").tolist()


class Broken(Policy):
    needs = ("z",)

    def rank(self, scores: Scores, rng: np.random.Generator) -> list:  # type: ignore[type-arg]
        raise RuntimeError("no idea")


class Nonsense(Policy):
    def rank(self, scores: Scores, rng: np.random.Generator) -> list:  # type: ignore[type-arg]
        return self.candidates(scores, np.array([0]), np.zeros(len(scores)), "x") and [
            type(c)(len(scores) + 7, "Nonsense", 0.0, "x") for c in Random().rank(scores, rng)
        ]


@pytest.mark.parametrize("policy", [Broken(), Nonsense()])
def test_a_policy_that_fails_is_told_and_its_fallback_chooses(
    policy: Policy, cloud_and_one: Scores, rng: np.random.Generator
) -> None:
    decider = Decider(Steering(policy, fallback=Random()))
    choice = decider.choose(cloud_and_one, rng)
    assert choice.policy == "Random"
    assert decider.trouble


def test_without_frames_the_prepared_start_is_taken(rng: np.random.Generator) -> None:
    assert Decider(Steering(Novelty("z"))).choose(scores(np.zeros((0, 2))), rng).candidate is None


def test_before_the_scores_exist_the_fallback_chooses(rng: np.random.Generator) -> None:
    table = Scores(*(np.zeros(5, int),) * 4, np.zeros(5, bool))
    assert Decider(Steering(Novelty("z"), fallback=Random())).choose(table, rng).policy == "Random"


def test_choices_differ_until_new_scores_and_tell_what_was_refused(cloud_and_one: Scores) -> None:
    decider = Decider(Steering(LocalOutlierFactor("z")))
    choices = [decider.choose(cloud_and_one, np.random.default_rng(i)) for i in range(10)]
    indices = [choice.candidate.index for choice in choices if choice.candidate]
    assert len(set(indices)) == 10
    assert [c.index for c in choices[0].refused] == indices[1:4]


def test_a_blamed_frame_is_not_chosen(cloud_and_one: Scores, rng: np.random.Generator) -> None:
    choice = Decider(Steering(LocalOutlierFactor("z"))).choose(cloud_and_one, rng, blamed={(0, 57)})
    assert choice.candidate is not None
    assert choice.candidate.index != 57


def test_the_share_that_explores_is_as_asked(cloud_and_one: Scores) -> None:
    """400 draws of a share of 0.25: within four standard deviations of 100."""
    decider = Decider(Steering(Target("z", (0.0, 0.0)), explore=0.25))
    explored = 0
    for i in range(400):
        decider._scores = None  # a new ranking every time, so that it does not run out
        explored += decider.choose(cloud_and_one, np.random.default_rng(i)).policy == "explore"
    assert abs(explored - 100) < 4 * np.sqrt(400 * 0.25 * 0.75)


def test_a_share_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"explore\) = 1\.5"):
        Steering(explore=1.5)


@pytest.mark.parametrize(
    ("steering", "own"),
    [
        (Steering(Novelty("z"), 0.2), {"Novelty"}),
        (Steering(Novelty("z") | Random(), 0.2), {"Novelty", "Random"}),
        (Steering(Novelty("z"), fallback=Random() | Unsteered()), {"Novelty"}),
        (Steering(Random(), fallback=Random()), {"Random"}),
        (Steering(Unsteered()), {"Unsteered"}),
    ],
)
def test_a_policys_own_starts_are_those_that_nobody_else_chose(steering: Steering, own: set[str]) -> None:
    names = {*own, *steering.fallback.name.split(" | "), "explore", "prepared", "continue", "pin", "held out"}
    assert {name for name in names if steering.own({name: 1})} == own
    assert steering.own(dict.fromkeys(own, 3)) == 3 * len(own)


def test_a_fallback_without_its_scores_or_that_raises_leaves_the_prepared_start(rng: np.random.Generator) -> None:
    table = Scores(*(np.zeros(5, int),) * 4, np.zeros(5, bool))
    assert Decider(Steering(Novelty("z"), fallback=Target("d"))).choose(table, rng).candidate is None
    assert Decider(Steering(Broken(), fallback=Nonsense())).choose(scores(np.zeros((5, 2))), rng).candidate is None


@pytest.mark.parametrize(
    ("policy", "dimensions", "told"),
    [(Target("z", (1.0, 2.0)), 1, "1 dimensions, its reference 2"), (Novelty("z"), 15, "15 dimensions, too many")],
)
def test_a_score_of_other_dimensions_is_told(
    policy: Policy, dimensions: int, told: str, rng: np.random.Generator
) -> None:
    with pytest.raises(ValueError, match=told):
        policy.rank(scores(np.zeros((5, dimensions))), rng)


def test_a_frontier_goes_on_from_the_newest_ends_alone_and_exactly(rng: np.random.Generator) -> None:
    z = np.random.default_rng(1).normal(size=(200, 2))
    z[57], z[199] = (30.0, 30.0), (20.0, 20.0)
    ends, starts = np.zeros(200, bool), np.zeros(200, int)
    ends[9::10] = True
    starts[189], starts[179] = 1, 2
    ranking = Frontier(LocalOutlierFactor("z"), newest=4).rank(scores(z, starts=starts, ends=ends), rng)
    assert ranking[0].index == 199
    assert {candidate.index for candidate in ranking} == {199, 189, 169}  # 179 has two branches already
    assert all(candidate.exact for candidate in ranking)


@pytest.mark.parametrize("policy", [LocalOutlierFactor("z", sample=200), Dbscan("z", sample=200)])
def test_a_frontier_ranks_its_ends_by_a_policy_that_looks_at_a_sample_only(policy: Policy) -> None:
    """Of a long run hardly any of the newest ends is among the frames that are drawn."""
    rng = np.random.default_rng(2)
    z, ends = rng.normal(size=(5000, 2)), np.zeros(5000, bool)
    ends[99::100] = True
    z[ends] *= 0.1
    z[4799] = (9.0, 9.0)
    table = scores(z, starts=ends.astype(int), ends=ends)
    assert all(Frontier(policy).rank(table, rng)[0].index == 4799 for _ in range(5))


@pytest.mark.parametrize("policy", [Unsteered(), Frontier(Novelty("z"), branches=1)])
def test_an_end_is_continued_once_from_one_ranking(policy: Policy, rng: np.random.Generator) -> None:
    """A choice that comes before the next scores would branch plain simulations, which then are short."""
    ends = np.zeros(40, bool)
    ends[[9, 19]] = True
    table, decider = scores(np.zeros((40, 2)), ends=ends), Decider(Steering(policy))
    chosen = [decider.choose(table, rng).candidate for _ in range(3)]
    assert [c and c.index for c in chosen][2] is None
    assert {c.index for c in chosen[:2] if c} == {9, 19}


def test_steering_goes_on_until_there_are_scores_and_is_patient_then() -> None:
    steering = Steering(LocalOutlierFactor("z"))
    assert steering.deciding(()).patient
    assert not steering.deciding({"z"}).patient
    assert not (Unsteered() | Random()).patient


def test_who_looks_at_scores_cannot_change_them_for_the_next() -> None:
    values = np.array([3.0, 1.0, 2.0])
    seen = scores(z=values)
    with pytest.raises(ValueError, match="read-only"):
        seen.values["z"].sort()
    assert values.tolist() == [3.0, 1.0, 2.0]
    values[0] = 4.0  # who made them may
