"""A clock that jumps, as NTP makes it do and a laptop that sleeps: durations are not measured by it."""

import random
from pathlib import Path

import pytest

from steersman.journal import file as journal
from steersman.journal.records import Lost, Stop

from .campaign import Campaign


@pytest.mark.slow
def test_a_clock_that_jumps_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = tmp_path / "ahead_s"
    clock.write_text("0")
    monkeypatch.setenv("STEPPED_CLOCK", str(clock))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("stepped")), prepend=":")
    campaign = Campaign(tmp_path, random.Random(0))
    try:
        for ahead_s in (10, 3600, -3600, 0):
            clock.write_text(str(ahead_s))
            frames = campaign.state().frames
            campaign.until(lambda state, frames=frames: state.frames > frames + 400)  # type: ignore[misc]
        budget = campaign.state().frames + 100
        campaign.check(campaign.finish(budget), budget)
    finally:
        campaign.close()
    records = list(journal.read(campaign.directory.journal))
    assert [record for record in records if isinstance(record, Lost | Stop)] == []
