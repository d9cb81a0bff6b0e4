"""Times to levels with seeds that never got there: textbook values, and what intervals must do."""

import numpy as np
import pytest

from steersman.analysis.comparison.statistics import Times, band, difference, median_time, speed_up, survival


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def times(*values: float, censored: tuple[int, ...] = ()) -> Times:
    reached = np.ones(len(values), bool)
    reached[list(censored)] = False
    return Times(np.array(values, float), reached)


def test_survival_of_the_leukaemia_patients_is_the_published_one() -> None:
    """6-MP arm of Freireich et al. (1963), as in every textbook; the median is 23 weeks."""
    weeks = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    patients = times(*weeks, censored=tuple(range(9, 21)))
    moments, share = survival(patients)
    assert moments.tolist() == [6, 7, 10, 13, 16, 22, 23]
    np.testing.assert_allclose(share, [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], atol=5e-4)
    assert median_time(patients) == 23


def test_a_seed_that_never_got_there_is_not_dropped() -> None:
    assert median_time(times(1, 2, 9, 9, 9, censored=(2, 3, 4))) == np.inf
    assert median_time(times(1, 2, 3, 9, 9, censored=(3, 4))) == 3
    assert median_time(times(1, 2, 3, 4)) == 2, "by then half of them had got there"


def test_twice_as_soon_is_two_with_both_bounds_when_seeds_agree() -> None:
    ratio = speed_up(times(8, 8, 8, 8), times(4, 4, 4, 4), rng())
    assert (ratio.value, ratio.low, ratio.high, ratio.at_least) == (2, 2, 2, False)


def test_a_plain_run_that_was_too_short_gives_a_lower_bound() -> None:
    ratio = speed_up(times(9, 9, 9, censored=(0, 1, 2)), times(3, 3, 3), rng())
    assert (ratio.value, ratio.low, ratio.high, ratio.at_least) == (3, 3, np.inf, True)
    unknown = speed_up(times(9, 9, censored=(0, 1)), times(9, 9, censored=(0, 1)), rng())
    assert (unknown.low, unknown.high) == (0, np.inf)


def test_the_interval_of_a_difference_holds_the_truth_nineteen_times_in_twenty() -> None:
    draw = np.random.default_rng(1)
    found = [difference(*draw.exponential(size=(2, 12))) for _ in range(1000)]
    assert np.mean([each.low <= 0 <= each.high for each in found]) == pytest.approx(0.95, abs=0.025)


def test_the_interval_of_a_difference_is_students_own() -> None:
    """Hours of sleep that ten patients gained by two drugs, from the paper of 1908: 1.58 (0.700 to 2.460)."""
    one = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
    other = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
    found = difference(one, other)
    assert (found.value, found.low, found.high) == pytest.approx((1.58, 0.7001142, 2.4598858), abs=1e-6)


@pytest.mark.slow
def test_a_speed_up_of_equal_arms_is_shown_seldom() -> None:
    draw = np.random.default_rng(1)
    found = [speed_up(times(*a), times(*b), draw) for a, b in draw.exponential(size=(20, 2, 12))]
    assert sum(not each.low <= 1 <= each.high for each in found) <= 3  # expected 1


def test_pairs_that_differ_alike_differ_for_sure_where_there_are_enough() -> None:
    """Paired: what seeds have in common cancels."""
    common = np.array([1.0, 50.0, 900.0])
    more = difference(common, common + 2)
    assert more == pytest.approx((2, 2, 2, False, 0.75)), "of three counts, by chance as often"
    assert difference(np.zeros(6), np.full(6, 0.1)).level == 0.95


def test_a_band_holds_its_median() -> None:
    values = np.random.default_rng(2).normal(size=(8, 30)).cumsum(axis=1)
    low, high, _ = band(values)
    assert ((low <= np.median(values, axis=0)) & (np.median(values, axis=0) <= high)).all()
