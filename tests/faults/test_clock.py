"""A clock that jumps, as NTP makes it do and a laptop that sleeps: durations are not measured by it.

And processes that all stand still for longer than leases and heartbeats last, as those of a suspended job.
"""

import random
from pathlib import Path

import pytest

from steersman.journal import file as journal
from steersman.journal.records import Lost, Stop

from .campaign import Campaign

STILL_S = 12.0  # leases last 5 s here, and workers are lost after 8 s


@pytest.mark.slow
def test_a_clock_that_jumps_costs_nothing_and_a_run_that_stood_still_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood still may lose its walkers, which are replaced."""
    clock = tmp_path / "ahead_s"
    clock.write_text("0")
    monkeypatch.setenv("STEPPED_CLOCK", str(clock))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("stepped")), prepend=":")
    campaign = Campaign(tmp_path, random.Random(0))
    try:
        for ahead_s in (10, 3600, -3600, 0):
            clock.write_text(str(ahead_s))
            go_on(campaign)
        assert [each for each in journal.read(campaign.directory.journal) if isinstance(each, Lost | Stop)] == []
        campaign.stand_still(STILL_S)
        go_on(campaign)
        budget = campaign.state().frames + 100
        state = campaign.finish(budget)
        campaign.check(state, budget)
    finally:
        campaign.close()
    assert len(state.sessions) == 1, "the same driver"
    assert state.end is not None
    assert state.end.outcome == "budget"


def go_on(campaign: Campaign) -> None:
    """Wait for new frames."""
    frames = campaign.state().frames
    campaign.until(lambda state: state.frames > frames + 400)
