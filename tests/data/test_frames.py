"""Frames of several walkers -> one array, whatever the first frame of each was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.data.frames import rows
from steersman.store import FRAME, BadVariable, Frames, GroupWriter


def stored(path: Path, *values: Any) -> Frames:
    """A walker for each value of `x`, with one frame."""
    for number, value in enumerate(values):
        writer = GroupWriter(path / f"w{number}")
        writer.append(FRAME, {"x": value})
        writer.close()
    return Frames(path)


@pytest.mark.parametrize(
    "values",
    [(np.int32(1), 2**40), (np.float32(1), 1e300), (1, 0.5), (np.datetime64("2020"), np.datetime64("2020-02"))],
)
def test_values_of_walkers_with_other_dtypes_are_read_as_they_were_stored(tmp_path: Path, values: Any) -> None:
    found = rows(stored(tmp_path, *values), "x", np.array([0, 1]), np.array([0, 0]))
    assert found.tolist() == np.array(values).tolist()


def test_frames_of_other_shapes_are_no_one_array(tmp_path: Path) -> None:
    with pytest.raises(BadVariable):
        rows(stored(tmp_path, np.zeros(3), np.zeros(1)), "x", np.array([0, 1]), np.array([0, 0]))
