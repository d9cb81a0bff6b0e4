"""What `try` says of the variables of a segment's frames, and of their time."""

import pytest

from steersman import Out, budget
from steersman.checks.results import oddities
from steersman.stages.start import Start
from steersman.system.errors import EngineError

FRAMES, DAYS = budget(frames=100), budget(sim_days=3)


def two(*, time: bool = True, goes_on: bool = False) -> tuple[Out, Out, Start]:
    """A segment of ten frames, one that begins at its seventh, and the start of that."""
    first = Out()
    for i in range(10):
        first.append(**({"time": 0.5 * i + 0.5} if time else {}), x=1.0)
    start = Start(None, first.frame(6))
    second, since = Out(after=first), 3.5 if goes_on else 0.0
    for i in range(10):
        second.append(**({"time": since + 0.5 * i + 0.5} if time else {}), x=1.0)
    return first, second, start


@pytest.mark.parametrize("goes_on", [True, False])
def test_time_that_is_counted_from_the_prepared_start_is_told(goes_on: bool) -> None:
    """A budget of simulated time would count the first segments again with each that continues them."""
    first, second, start = two(goes_on=goes_on)
    told = oddities(second, start, ("time", "x"), DAYS, first.frame(0))
    assert ("4 after 3.5" in told) == goes_on
    assert bool(told) == goes_on
    assert oddities(first, Start(None), (), DAYS, first.frame(0)) == ""


def test_what_is_described_and_never_stored_is_told() -> None:
    first, _, _ = two()
    assert "xx" in oddities(first, Start(None), ("time", "xx"), FRAMES, first.frame(0))
    assert oddities(first, Start(None), ("time", "x", "xx"), FRAMES, first.frame(0)) == "", "an app's, say"
    without, _, _ = two(time=False)
    assert "time" in oddities(without, Start(None), ("time", "x"), FRAMES, without.frame(0))


def test_a_stop_rule_that_counts_simulated_time_needs_frames_that_have_it() -> None:
    first, _, _ = two(time=False)
    assert oddities(first, Start(None), (), FRAMES, first.frame(0)) == ""
    with pytest.raises(EngineError) as told:
        oddities(first, Start(None), ("time",), FRAMES | DAYS, first.frame(0))
    assert told.value.values == {"rule": FRAMES | DAYS}
