"""Frames reach every node's disk, each byte read from the shared file system once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steersman.models.errors import StagingFailed
from steersman.models.fitting.input import Stream, taken
from steersman.models.ranks.launch import launch
from steersman.models.ranks.staging import stage, staged
from steersman.store import FRAME, Frames, GroupWriter, Window


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    """Three walkers with two variables each; `maps` are some hundred kilobytes that do not compress."""
    path, random = tmp_path_factory.mktemp("shared"), np.random.default_rng(0)
    for number in range(3):
        writer = GroupWriter(path / f"walker{number:04d}")
        rows = 40 + number
        maps = random.integers(0, 256, (rows, 64, 64), dtype=np.uint8)
        writer.extend(FRAME, {"maps": maps, "positions": random.random((rows, 100))})
        writer.publish()
    return Frames(path)


@pytest.mark.slow
def test_two_nodes_read_every_byte_once_and_both_have_all(frames: Frames, tmp_path: Path, found_by_ranks: None) -> None:
    """Though a read fails and a piece is damaged on its way; and where a node's disk fails, both say so."""
    wanted = {"frames": str(frames.path), "folder": str(tmp_path)}
    target = "tests.models.staging:staged_on_two_nodes"
    card = launch(target, wanted, ranks=2, strategy="ddp", folder=tmp_path / "ranks", timeout_s=60).card
    one, two = card["ranks"]
    walkers = [frames.path / name for name in frames.walkers()]
    sources = [
        path for walker in walkers for path in (walker / "zarr.json", *walker.glob("maps/**/*")) if path.is_file()
    ]
    assert one["read"] + two["read"] == sum(path.stat().st_size for path in sources)
    assert min(one["read"], two["read"]) > 100_000, "both read a part"
    assert one["files"] == two["files"]
    assert set(one["files"]) == {f"maps/{path.relative_to(frames.path)}" for path in sources}
    window = Window(frames, frames.spans())
    assert one["sum"] == two["sum"] == int(window["maps"].sum())
    for told in (one, two):
        assert "node1: " in told["failed"]
        assert "node0: " not in told["failed"]


def test_one_process_copies_for_itself(frames: Frames, tmp_path: Path) -> None:
    """Without a group; a window of one walker takes that walker's shards only, of what is read, when it is."""
    window = Window(frames, frames.spans()[1:2])
    here = staged(window, tmp_path)
    assert not list(tmp_path.iterdir())
    assert isinstance(taken(here, "maps", memory_bytes=10_000), Stream)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")] == ["maps/walker0001"]
    assert np.array_equal(here["maps"], window["maps"])
    with pytest.raises(KeyError, match="velocities"):
        here["velocities"]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StagingFailed, match="No such file"):
        stage(tmp_path, ["gone"], tmp_path / "copy")
