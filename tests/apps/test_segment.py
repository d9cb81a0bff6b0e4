"""How a segment learns that it is to end."""

from itertools import accumulate, pairwise, repeat, takewhile

from steersman.apps.segment import look_every_s


def test_a_stop_is_late_by_a_tenth_and_a_long_segment_asks_seldom() -> None:
    """Ten thousand walkers share a server that answers some ten thousand questions a second."""
    asked = list(takewhile(lambda t: t < 300, accumulate(repeat(0.0), lambda t, _: t + look_every_s(t))))
    assert all(later - t <= max(0.05, 0.1 * t) + 1e-9 for t, later in pairwise(asked))
    assert asked[1] == 0.05
    assert len(asked) / 300 < 0.3
