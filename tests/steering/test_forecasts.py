"""How often an event happens that was forecast with some probability."""

import numpy as np
import pytest

from steersman.steering import reliability


def test_intervals_hold_the_probability_of_honest_forecasts_and_not_that_of_others() -> None:
    rng = np.random.default_rng(0)
    q = 10 ** rng.uniform(-3.5, 0, 40_000)
    happened = rng.random(len(q)) < q
    for honest, forecast in ((True, q), (False, np.minimum(2 * q, 1))):
        bins = reliability(forecast, happened)
        assert sum(each.number for each in bins) == pytest.approx(len(q))
        assert all(each.first <= each.forecast <= each.last for each in bins)
        holds = [each.low <= each.forecast <= each.high for each in bins]
        assert (np.mean(holds) > 0.7) == honest


def test_a_forecast_of_weight_two_counts_as_two_and_of_none_not_at_all() -> None:
    q, happened = np.array([0.3, 0.4, 0.45, 0.4]), np.array([True, False, False, True])
    (found,) = reliability(q, happened, np.array([2.0, 1.0, 1.0, 0.0]))
    assert found.frequency == 0.5
    assert found.forecast == pytest.approx((2 * 0.3 + 0.4 + 0.45) / 4)
    assert found.number == pytest.approx(16 / 6)
    assert reliability(q[:0], happened[:0]) == []
    with pytest.raises(ValueError, match="reliability"):
        reliability(q + 1, happened)
