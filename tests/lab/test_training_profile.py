"""The figure of where an epoch's time went is true to the records."""

from __future__ import annotations

import pytest
from matplotlib.collections import LineCollection

from lab import epochs
from steersman.dashboard import style
from steersman.data.errors import NothingToDraw
from steersman.models.fitting.profile import COMPUTING


def record(scale: float) -> dict[str, float]:
    """An epoch of 10 s times a scale, without a second for anything unnamed."""
    spent = {"IpUpdateTime": 1.0, "FwdTime": 2.0, "BwdTime": 4.0, "WtUpdateTime": 1.0, "SyncTime": 2.0}
    spent = {label: scale * seconds for label, seconds in spent.items()}
    return {"loss": 1.0, "seconds": 10 * scale, "TotalCompTime": sum(spent[label] for label in COMPUTING), **spent}


def test_the_bars_of_an_epoch_are_stacked_to_its_seconds() -> None:
    """Each label begins where the one below ends; TotalCompTime is the line at the top of the first four."""
    records = [record(1.0), record(0.5)]
    with style.applied():
        figure, caption = epochs.drawn(records)
    axes = figure.axes[0]
    lines = next(each.get_segments() for each in axes.collections if isinstance(each, LineCollection))
    for number, epoch in enumerate(records):
        bars = [(top[number], below[number]) for top, _, below in (each.get_data() for each in axes.patches)]  # type: ignore[attr-defined]
        assert [top - below for top, below in bars] == pytest.approx([epoch[label] for label in epochs.STACKED])
        assert bars[-1][0] == pytest.approx(epoch["seconds"])
        assert lines[number][:, 1] == pytest.approx(bars[-1][1])
    assert {text.get_text() for text in axes.get_legend().texts} == {*epochs.STACKED, "TotalCompTime"}  # type: ignore[union-attr]
    assert axes.get_ylabel().endswith("(s)")
    assert "SyncTime 20.0%" in caption


def test_records_without_a_profile_are_nothing_to_draw() -> None:
    """As a model of another library leaves."""
    with pytest.raises(NothingToDraw):
        epochs.drawn([{"loss": 1.0, "seconds": 2.0}])
