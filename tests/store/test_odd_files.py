"""Files of a stranger below frames.zarr: none that is odd is read, waited for, or followed out of the store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from steersman.store import FRAME, DamagedGroup, DamagedShard, Frames, GroupWriter, Span
from steersman.system.reading import OddFile


def moved(path: Path) -> None:
    """It lies elsewhere, whole."""
    elsewhere = next(each for each in path.parents if each.name == "frames.zarr").parent / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    os.truncate(path, 2**40)


@pytest.fixture
def frames(tmp_path: Path) -> Frames:
    writer = GroupWriter(tmp_path / "frames.zarr" / "w0")
    writer.extend(FRAME, {"x": np.arange(5.0), "inside": np.ones((5, 3), bool)})
    writer.close()
    return Frames(tmp_path / "frames.zarr")


def all_read(frames: Frames) -> None:
    for variable in ("x", "inside"):
        frames.read(variable, Span("w0", 0, 5))


@pytest.mark.parametrize("odd", [moved, piped, device, huge])
@pytest.mark.parametrize("name", ["zarr.json", "x/c/0", "inside/c/0/0"])
def test_an_odd_file_is_refused(frames: Frames, name: str, odd: Callable[[Path], None]) -> None:
    odd(frames.path / "w0" / name)
    with pytest.raises((OddFile, DamagedShard)):
        all_read(frames)


@pytest.mark.parametrize("name", ["", "x", "x/c", "inside/c/0"])
def test_a_folder_that_lies_elsewhere_is_refused(frames: Frames, name: str) -> None:
    moved(frames.path / "w0" / name)
    with pytest.raises(OddFile):
        all_read(frames)


@pytest.mark.parametrize("name", ["../w1/x", "/etc", "..", ""])
def test_a_variable_is_a_folder_of_its_group(frames: Frames, name: str) -> None:
    file = frames.path / "w0" / "zarr.json"
    described = json.loads(file.read_text())
    arrays = described["consolidated_metadata"]["metadata"]
    arrays[name] = arrays["x"]
    file.write_text(json.dumps(described))
    with pytest.raises(DamagedGroup):
        frames.variables("w0")


def test_a_store_may_be_a_link_itself(frames: Frames, tmp_path: Path) -> None:
    """To a larger disk, say."""
    link = tmp_path / "link"
    link.symlink_to(frames.path)
    assert Frames(link).read("x", Span("w0", 0, 5)).tolist() == [0, 1, 2, 3, 4]
