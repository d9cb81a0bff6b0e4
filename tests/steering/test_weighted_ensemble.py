"""Weights of a weighted ensemble: what splitting and merging keep, and that averages are not moved."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from lab import rates
from lab import weighted_ensemble as bench
from steersman.steering import NEW, Decider, Novelty, Redundant, Scores, Steering, WeightedEnsemble
from steersman.steering.errors import NoAnswerYet
from steersman.steering.weighted_ensemble import EVEN, Mean, arrivals, averages, mean_of_rounds, passage, resample

WEIGHTS = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=12)


@given(weights=WEIGHTS, members=st.integers(1, 9), seed=st.integers(0, 99))
def test_a_bin_keeps_its_weight_and_gets_its_members_none_much_heavier_than_others(
    weights: list[float], members: int, seed: int
) -> None:
    found = resample(weights, members, np.random.default_rng(seed))
    assert len(found) == members
    assert sum(weight for _, weight in found) == pytest.approx(sum(weights), rel=1e-12)
    assert max(weight for _, weight in found) <= EVEN * sum(weights) / members * (1 + 1e-6)


@pytest.mark.parametrize(
    "weights", [[0.5, 0.3, 0.2], [0.97, 0.01, 0.01, 0.01], [0.1] * 8, [1.0], [0.01, 0.05, 0.14, 0.2, 0.2, 0.4]]
)
def test_each_member_keeps_its_weight_on_average(weights: list[float]) -> None:
    """The mean over 4,000 draws, within 5 standard errors."""
    rng, draws = np.random.default_rng(0), 4000
    given_ = np.zeros((draws, len(weights)))
    for draw in given_:
        for i, weight in resample(weights, 4, rng):
            draw[i] += weight
    error = given_.std(axis=0) / np.sqrt(draws)
    assert (np.abs(given_.mean(axis=0) - weights) <= 5 * error + 1e-12).all()


def ended(weights: list[float], values: dict[str, list[float]], number: int = 1) -> Scores:
    """Members of two frames each; the values are those of frames."""
    n = 2 * len(weights)
    rows = np.arange(n)
    return Scores(
        np.zeros(n, int), rows, rows // 2, np.zeros(n, int), rows % 2 == 1,
        {name: np.array(each) for name, each in values.items()}, weight=np.repeat(weights, 2), round=np.full(n, number),
    )  # fmt: skip


def test_bins_do_not_mix_and_arrived_members_go_back_with_their_weight() -> None:
    weights = [0.5, 0.2, 0.2, 0.1]
    scores = ended(weights, {"x": [0, 0, 0, 0.1, 0, 5, 9, 6], "there": [0, 0, 0, 0, 0, 0, 1, 0]})
    chosen = WeightedEnsemble("x", edges=(1.0,), members=3, target="there").rank(scores, np.random.default_rng(0))
    sums = {index: sum(each.weight for each in chosen if each.index in index) for index in [(1, 3), (5,), (7,), (NEW,)]}
    assert sums == pytest.approx({(1, 3): 0.7, (5,): 0.2, (7,): 0.0, (NEW,): 0.1})
    assert [each.index for each in chosen].count(5) == 3
    assert all(each.exact for each in chosen if each.index != NEW)


BY_CHANCE = WeightedEnsemble(chance="q", members=20, target="there")


@given(
    ends=st.lists(
        st.tuples(st.floats(1e-12, 1.0), st.sampled_from([0.0, 1e-300, 1e-6, 0.3, 1.0])), min_size=1, max_size=9
    ),
    seed=st.integers(0, 99),
)
def test_members_by_chance_are_a_constant_number_that_keeps_the_weight(
    ends: list[tuple[float, float]], seed: int
) -> None:
    weights = [weight for weight, _ in ends]
    scores = ended(weights, {"q": np.repeat([q for _, q in ends], 2).tolist(), "there": [0.0] * 2 * len(ends)})
    chosen = BY_CHANCE.rank(scores, np.random.default_rng(seed))
    assert len(chosen) == BY_CHANCE.members
    assert sum(each.weight for each in chosen) == pytest.approx(sum(weights), rel=1e-9)
    assert all(each.exact and each.weight > 0 for each in chosen)


def test_by_chance_each_member_keeps_its_weight_on_average_and_the_likely_ones_are_copied() -> None:
    """The mean over 4,000 draws, within 5 standard errors."""
    weights, chance = [0.6, 0.38, 0.01, 0.01], [0.0, 1e-4, 0.5, 0.02]
    scores = rates.with_arrivals(ended(weights, {"q": np.repeat(chance, 2).tolist(), "there": [0.0] * 8}))
    rng, draws = np.random.default_rng(0), 4000
    kept, copies = np.zeros((draws, 4)), np.zeros(4)
    for draw in kept:
        for each in BY_CHANCE.rank(scores, rng):
            draw[each.index // 2] += each.weight
            copies[each.index // 2] += 1
    error = kept.std(axis=0) / np.sqrt(draws)
    assert (np.abs(kept.mean(axis=0) - weights) <= 5 * error + 1e-12).all()
    assert copies[2] > 10 * copies[3] * 0.5 > copies[1] * 0.5


def test_while_the_way_is_unknown_members_are_spread_over_those_that_have_left_the_beginning() -> None:
    chance = [0.0] * 15 + [0.1, 0.3, 0.5, 0.7, 0.9]
    scores = ended([0.05] * 20, {"q": np.repeat(chance, 2).tolist(), "there": [0.0] * 40})
    rng = np.random.default_rng(0)
    left = [sum(each.index >= 30 for each in BY_CHANCE.rank(scores, rng)) for _ in range(100)]
    assert np.mean(left) > 0.6 * BY_CHANCE.members


@pytest.mark.slow
def test_an_ensemble_whose_chance_is_learned_meanwhile_finds_the_way_over_a_barrier() -> None:
    """12 kT, begun with frames of both wells alone: in each of 4 ensembles members arrive before round 150."""
    problem = replace(rates.two_wells(), rounds=300)
    found = rates.measured(problem, WeightedEnsemble(chance="x", members=100, target="there"), [None] * 4)
    assert found["hold"] >= 3
    assert min(found["rates"]) > 0


@pytest.mark.parametrize(
    "names", [{}, {"score": "x", "chance": "q"}, {"chance": "q"}, {"chance": "q", "target": "there", "edges": (0.5,)}]
)
def test_a_policy_has_a_score_or_a_chance(names: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="chance"):
        WeightedEnsemble(**names)


def test_a_chance_that_is_no_probability_is_refused() -> None:
    scores = ended([0.5, 0.5], {"q": [0.1, 0.1, 2.5, 2.5], "there": [0.0] * 4})
    with pytest.raises(ValueError, match=r"2\.5"):
        BY_CHANCE.rank(scores, np.random.default_rng(0))


def test_a_target_that_says_neither_yes_nor_no_is_refused() -> None:
    scores = ended([0.5, 0.5], {"x": [0.0] * 4, "there": [0, 0.3, 0, 1]})
    with pytest.raises(ValueError, match=r"'there' is 0\.3"):
        WeightedEnsemble("x", members=2, target="there").rank(scores, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("there", "number", "warns"),
    [([1, 0, 1, 1], 1, True), ([1, 0, 0, 1], 1, False), ([0, 1, 0, 1], 1, False), ([1, 1, 1, 1], 2, False)],
)
def test_a_start_that_lies_in_the_target_is_said_after_the_first_round(
    there: list[float], number: int, warns: bool
) -> None:
    scores = ended([0.5, 0.5], {"x": [0.0] * 4, "there": there}, number)
    policy = WeightedEnsemble("x", members=2, target="there")
    assert ("'there'" in policy.warning(scores)) is warns
    assert WeightedEnsemble("x").warning(scores) == policy.warning(bench.NOTHING) == Novelty("x").warning(scores) == ""


def test_without_scores_members_begin_at_the_prepared_start_and_then_go_on() -> None:
    policy, rng = WeightedEnsemble("x", members=4), np.random.default_rng(0)
    assert [(each.index, each.weight) for each in policy.rank(bench.NOTHING, rng)] == [(NEW, 0.25)] * 4
    assert [(each.index, each.weight) for each in policy.rank(ended([0.75, 0.25], {}), rng)] == [(1, 0.75), (3, 0.25)]


def test_who_has_arrived_goes_back_also_before_there_are_scores_that_tell_bins() -> None:
    """As before the first model, of a target that needs none."""
    scores = ended([0.5, 0.3, 0.2], {"there": [0, 0, 1, 0, 0, 0]})
    chosen = WeightedEnsemble("z", members=4, target="there").rank(scores, np.random.default_rng(0))
    assert [(each.index, each.weight) for each in chosen] == [(NEW, 0.3), (1, 0.5), (5, 0.2)]


def test_rounds_after_which_an_arrived_member_went_on_count_no_passage() -> None:
    """One came in round 1 and went back after round 2, when the target was known; two came later."""
    each = [ended([0.75, 0.25], {"there": [0, 0, 0, int(number != 4)]}, number) for number in range(1, 5)]
    each[3] = ended([0.25, 0.75], {"there": [0, 0, 1, 0]}, 4)
    went_on = [[0, 1, 0, int(number < 2)] for number in range(1, 5)]
    scores = replace(
        each[0],
        walker=np.arange(16) // 4, row=np.arange(16) % 4, starts=np.concatenate(went_on), ends=np.tile(each[0].ends, 4),
        segment=np.tile(each[0].segment, 4), round=np.repeat([1, 2, 3, 4], 4),
        weight=np.concatenate([one.weight for one in each]),
    )  # fmt: skip
    there = np.concatenate([one.values["there"] for one in each]) > 0
    assert arrivals(scores, there).tolist() == [[0.25, 0.75], [0.0, 0.375]]


@pytest.mark.parametrize("summed", [averages, arrivals])
def test_frames_without_weights_and_values_of_other_frames_are_refused(summed: Any) -> None:
    scores = ended([0.5, 0.5], {})
    with pytest.raises(ValueError, match="WeightedEnsemble"):
        summed(replace(scores, weight=np.zeros(4)), np.ones(4))
    with pytest.raises(ValueError, match="WeightedEnsemble"):
        summed(replace(scores, weight=np.empty(0), round=np.empty(0, int)), np.ones(4))
    with pytest.raises(ValueError, match="4 frames"):
        summed(scores, np.ones(3))


def test_a_target_that_is_not_known_yet_is_said_after_the_first_round() -> None:
    policy = WeightedEnsemble("z", members=2, target="there")
    early = ended([0.5, 0.5], {"z": [0.0] * 4})
    assert "no score 'there'" in policy.warning(early)
    assert policy.warning(replace(early, round=np.full(4, 2))) == policy.warning(bench.NOTHING) == ""


def test_members_that_are_missing_end_the_ensemble() -> None:
    """Weights that do not sum to 1 would be a wrong answer."""
    decider = Decider(Steering(WeightedEnsemble("x")))
    whole = decider.choose_round(ended([0.75, 0.25], {"x": [0.0] * 4}), np.random.default_rng(0))
    assert len(whole) == 4
    with pytest.raises(ValueError, match=r"weigh 0\.75"):
        decider.choose_round(ended([0.75], {"x": [0.0] * 2}), np.random.default_rng(0))


def test_nothing_else_chooses_starts_beside_a_weighted_ensemble() -> None:
    weighted = WeightedEnsemble("x")
    with pytest.raises(ValueError, match="explore"):
        Steering(weighted, explore=0.1)
    with pytest.raises(ValueError, match="prune"):
        Steering(weighted, prune=Redundant("x"))
    with pytest.raises(ValueError, match="turns"):
        weighted | Novelty("x")
    with pytest.raises(ValueError, match="fallback"):
        Steering(Novelty("x"), fallback=weighted)
    for wrong in ({"members": 0}, {"edges": (1.0, 1.0)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            WeightedEnsemble("x", **wrong)


def test_averages_and_passage_times_of_a_process_that_is_known() -> None:
    """One member of 10 arrives in each round, at the first of its 2 frames: 10 rounds, less half a round each."""
    rounds = [ended([0.1] * 10, {"there": [0.0] * 18 + [1.0, 0.0]}, number) for number in range(1, 81)]
    np.testing.assert_allclose([averages(each, each.values["there"])[-1] for each in rounds], 0.05)
    arrived = np.stack([arrivals(each, each.values["there"] > 0)[:, -1] for each in rounds], axis=1)
    found = passage(arrived)
    assert (found.low, found.value, found.high) == pytest.approx((9.5, 9.5, 9.5))


def test_members_that_were_lost_do_not_count_as_ones_that_did_not_arrive() -> None:
    """As where frames were damaged and set aside: the rate is that of the members that are left."""
    whole = [ended([0.1] * 10, {"there": [0.0] * 18 + [1.0, 0.0]}, number) for number in (1, 2)]
    left = ended([0.1] * 5, {"there": [0.0] * 8 + [1.0, 0.0]}, 2)
    for each, rate in ((whole[1], 0.1), (left, 0.2)):
        np.testing.assert_allclose(arrivals(each, each.values["there"] > 0)[:, -1], [rate, rate / 2])


def test_a_member_that_stays_in_the_target_arrives_at_its_first_frame_there() -> None:
    """Half of the round is left then; of one that comes with its last frame nothing is."""
    scores = ended([0.3, 0.5, 0.2], {"there": [1, 1, 0, 1, 0, 0]})
    assert arrivals(scores, scores.values["there"] > 0).tolist() == [[0.8], [0.15]]


@pytest.mark.slow
def test_intervals_of_means_hold_the_truth_as_often_as_they_say() -> None:
    """95 % of 4,000 series, or a little more, within 3 standard errors: of independent numbers, of slow ones, which
    forget within 40 rounds, and of weights, which are skewed."""
    noise = np.random.default_rng(0).standard_normal((4000, 2000))
    forget = np.exp(-1 / 40)
    slow = lfilter([np.sqrt(1 - forget**2)], [1.0, -forget], noise, axis=1)
    for series, truth in ((noise[:, :200], 0.0), (slow, 0.0), (np.exp(slow), np.exp(0.5))):
        found = [mean_of_rounds(each, skip=0.5) for each in series]
        assert 0.94 < np.mean([each.low <= truth <= each.high for each in found]) < 0.98


def test_an_interval_of_equal_rounds_is_a_point_and_one_of_few_is_none() -> None:
    assert mean_of_rounds(np.full(40, 3.0)) == Mean(3.0, 3.0, 3.0)
    assert mean_of_rounds(np.zeros(40)) == Mean(0.0, 0.0, np.inf)
    alternating = mean_of_rounds(np.tile([0.0, 1.0], 100))
    assert alternating.low < 0.5 < alternating.high
    assert alternating.high - alternating.low < 0.25, "as of independent rounds at most"
    with pytest.raises(NoAnswerYet):
        mean_of_rounds(np.zeros(17))


@pytest.mark.slow
def test_an_ensemble_passes_a_barrier_as_often_as_the_transfer_matrix_says() -> None:
    """12 kT: the error of a plain trajectory of the same length would be six times the truth."""
    found = bench.two(seeds=4, rounds=450)
    assert found["hold"] >= 3
    assert found["mean"] == pytest.approx(found["exact"], rel=0.5)
    assert found["plain_error"] > 5 * found["error"]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_the_rate_by_a_chance_is_that_of_the_transfer_matrix_however_wrong_the_chance_is(wrong: bool) -> None:
    problem = replace(rates.two_wells(), rounds=300)
    score = (lambda x: problem.exact(x) ** 0.7) if wrong else problem.exact
    found = rates.measured(problem, WeightedEnsemble(chance="x", members=100, target="there"), [score] * 4)
    assert found["hold"] >= 3
    assert found["mean rate"] == pytest.approx(1.0, rel=0.9 if wrong else 0.5)
