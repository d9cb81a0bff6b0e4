"""Laws of a group that grows on a node's own storage: where all read it, it is what it would be without the detour."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr

from steersman.store import FRAME, Frames, GroupWriter, ScratchWriter, Span, scratch
from steersman.system.processes import lives
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
SHARD = 128  # rows of 64 KB in a shard


def append(writer: GroupWriter, rows: range) -> None:
    """Frames whose every number tells its row."""
    for i in rows:
        writer.append(FRAME, {"field": np.full(16_384, i, np.float32), "bits": np.array([i % 2, i % 3]) > 0})


def whole(frames: Frames, rows: int) -> bool:
    """Whether a group has these rows, and each of them as it was made."""
    if frames.count("w0") != rows:
        return False
    field, bits = (frames.read(name, Span("w0", 0, rows)) for name in ("field", "bits"))
    numbers = np.arange(rows)
    return bool((field == numbers[:, None]).all() and (bits == (np.c_[numbers % 2, numbers % 3] > 0)).all())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def frames(tmp_path: Path) -> Frames:
    return Frames(tmp_path / "frames.zarr")


def test_the_files_are_those_of_the_direct_path(frames: Frames, tmp_path: Path) -> None:
    """Byte for byte, over several shards and moves; nothing is left on the node."""
    for writer in (ScratchWriter(frames.path / "w0", tmp_path / "node"), GroupWriter(frames.path / "w1")):
        for first in range(0, 3 * SHARD, SHARD // 2 + 7):
            append(writer, range(first, min(3 * SHARD, first + SHARD // 2 + 7)))
            writer.publish(now=first % 3 == 0)
        writer.close()
    assert contents(frames.path / "w0") == contents(frames.path / "w1")
    assert whole(frames, 3 * SHARD)
    assert not list((tmp_path / "node").iterdir())


def test_a_row_is_published_when_it_was_moved(frames: Frames, tmp_path: Path) -> None:
    writer = ScratchWriter(frames.path / "w0", tmp_path / "node")
    assert frames.walkers() == []
    append(writer, range(5))
    assert writer.publish() == writer.published == {FRAME: 5}, "the first at once"
    append(writer, range(5, 9))
    assert writer.publish() == {FRAME: 5}
    assert whole(frames, 5)
    assert writer.publish(now=True) == {FRAME: 9}
    assert zarr.open_array(frames.path / "w0" / "field", mode="r").shape[0] == 9, "of an array that is opened alone too"
    append(writer, range(9, 11))
    writer.close()
    assert whole(frames, 11)


def test_a_move_that_failed_is_told_and_loses_nothing(frames: Frames, tmp_path: Path) -> None:
    """Files that were taken before it failed are moved by the next, and before newer ones of the same name."""
    writer = ScratchWriter(frames.path / "w0", tmp_path / "node")
    append(writer, range(3))
    (frames.path / "w0" / "field").write_text("something in the way")
    for rows in (range(3, 5), range(5, 6)):
        with pytest.raises(OSError, match="field"):
            writer.publish()
        append(writer, rows)
    (frames.path / "w0" / "field").unlink()
    assert writer.publish() == {FRAME: 6}
    assert whole(frames, 6)
    writer.close()


def write_on(path: Path, node: Path, say: Connection) -> None:
    """Publish 13 rows at a time, moved each time until something is said, then only kept on the node."""
    scratch.MOVE_EVERY_S = 0.0
    writer, rows = ScratchWriter(path, node), 0
    while not say.poll():
        append(writer, range(rows, rows + 13))
        rows += 13
        writer.publish()
    scratch.MOVE_EVERY_S = 3600.0
    append(writer, range(rows, rows + 13))
    writer.publish()
    say.send((rows, psutil.Process().children()[0].pid))
    signal.pause()


@pytest.fixture(params=["process", "node"])
def killed(request: pytest.FixtureRequest) -> str:
    """What dies: the walker's process alone, or what moves its frames as well."""
    return str(request.param)


@pytest.mark.slow
def test_a_reader_beside_it_sees_whole_frames_and_a_kill_loses_none_but_with_the_node(
    killed: str, frames: Frames, tmp_path: Path
) -> None:
    """Some hundred looks while whole files are moved; then the writer is killed, 13 rows behind what it has written."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=write_on, args=(frames.path / "w0", tmp_path / "node", there)
    )
    process.start()
    seen: list[int] = []
    while not seen or seen[-1] < 2 * SHARD:
        rows = frames.count("w0") if frames.walkers() else 0
        if rows:
            assert rows % 13 == 0, "a publication is all or nothing"
            assert rows >= max(seen, default=0), "published rows stay"
            assert frames.read("field", Span("w0", rows - 13, rows))[:, 0].tolist() == list(range(rows - 13, rows))
            assert (frames.row("w0", rows // 2)["field"] == rows // 2).all()
            seen.append(rows)
    here.send("only keep them")
    rows, mover = here.recv()
    assert whole(frames, rows)
    if killed == "node":
        os.kill(mover, signal.SIGKILL)
    process.kill()
    process.join()
    until(lambda: not lives(mover))
    assert whole(frames, rows if killed == "node" else rows + 13)
    assert killed == "node" or not list((tmp_path / "node").iterdir())
