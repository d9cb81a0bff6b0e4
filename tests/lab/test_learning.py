"""Speed-ups from curves: on curves whose answer is known."""

from __future__ import annotations

from lab.learning import ALONE, Kind, compared

TWO = Kind(ranks=2, syncs=1, lr_scale=1)


def curve(seconds: float, *losses: float) -> list[dict[str, float]]:
    """An epoch for each loss, all of the same length."""
    return [{"seconds": seconds, "SyncTime": seconds / 10, "held_out": loss} for loss in losses]


def test_twice_as_fast_epochs_but_twice_as_many_are_worth_nothing() -> None:
    """S_p = 2 and S_L = 1; one rank over itself is 1."""
    told = compared({ALONE: [curve(2, 9, 4, 3, 2)], TWO: [curve(1, 9, 8, 7, 4)]}, 4.0)
    alone, two = told["rows"]
    assert (alone["S_p"], alone["S_L"], alone["epochs"]) == (1, 1, [2])
    assert (two["S_p"], two["S_L"], two["epochs"], two["censored"]) == (2, 1, [4], 0)
    assert two["sync_share"] == 0.1


def test_what_never_reaches_the_threshold_is_censored_and_counts_as_late() -> None:
    """One of three: the median of the others' later one; two of three: there is no learning speed-up to tell."""
    alone, never = curve(2, 9, 4, 3, 2), curve(1, 9, 9, 9, 9)
    early, late = curve(1, 4, 4, 4, 4), curve(1, 9, 9, 4, 4)
    one = compared({ALONE: [alone], TWO: [early, never, late]}, 4.0)["rows"][1]
    two = compared({ALONE: [alone], TWO: [early, never, never]}, 4.0)["rows"][1]
    assert (one["censored"], one["S_L"]) == (1, round(2 * 2 / (1 * 3), 3))
    assert (two["censored"], two["S_L"]) == (2, None)
