"""Samples of the stored frames: what figures show of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steersman.data import stored
from steersman.data.history import History
from tests.data.test_yardsticks import run_of


@pytest.mark.parametrize("at_once", [0, 2**20])
def test_what_is_sampled_of_a_run_is_spread_over_each_segment(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steering begins segments where it likes: their first rows are no sample. Each says where it lies."""
    monkeypatch.setattr(stored, "AT_ONCE", at_once)
    history = History(run_of(tmp_path, [[1.0] * 90] * 30, timed=True))
    known = stored.variables(history)
    wide = replace(known["n"], shape=(stored.MOST_BYTES // 8 // 30 // 5,))  # of which 5 rows of a segment are read
    found = list(stored.blocks(history, known["n"]))
    at = np.concatenate([block.values for block in found]) - 1
    assert [len(block.values) for block in found] == [stored.MOST_ROWS] * 30
    assert (at // 90).tolist() == np.repeat(np.arange(30), stored.MOST_ROWS).tolist()
    assert np.histogram(at % 90, bins=9, range=(0, 90))[0] == pytest.approx([600 / 9] * 9, abs=7)
    of_wide = list(stored.blocks(history, wide))
    assert {len(block.values) for block in of_wide} == {5}
    where, row = (np.concatenate([getattr(block, name) for block in of_wide]) for name in ("walker", "row"))
    frames = history.directory.frames
    read = [frames.row(f"w{w}", r)["n"] for w, r in zip(where.tolist(), row.tolist(), strict=True)]
    np.testing.assert_array_equal(np.concatenate([block.values for block in of_wide]), read)
    few = stored.blocks(History(run_of(tmp_path / "few", [[1.0] * 7] * 2, timed=False)), known["n"])
    assert np.concatenate([block.values for block in few]).tolist() == list(range(1, 15))
