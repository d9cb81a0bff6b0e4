"""Laws of merging: every read gives what it gave before, whenever a process dies; and groups stay few."""

import itertools
import json
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.store import (
    FRAME,
    SEGMENT,
    DamagedShard,
    Frames,
    GroupWriter,
    Span,
    StoreError,
    Variable,
    Window,
    column,
    make_root,
    merge,
)
from steersman.store.check import damages, read_walkers, whose
from tests.power import Disk

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
FEW_ROWS = 4, 8  # of a chunk and of a shard, so that few rows fill many


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "CHUNK_ROWS", FEW_ROWS[0])
    monkeypatch.setattr(column, "SHARD_ROWS", FEW_ROWS[1])
    monkeypatch.setattr(merge, "BLOCK_BYTES", 100)  # so that blocks are of a few rows


VARIABLES = {
    "position": Variable(("atom", "xyz"), "nm", "where atoms are"),
    "field": Variable(("lat",), "K"),
    "lat": Variable(("lat",), "degrees_north"),
}


def write(frames: Frames, number: int, segments: list[int], *, late: int | None = None, unended: int = 0) -> None:
    """A walker with segments of so many frames; every number in them tells walker and row."""
    writer = GroupWriter(
        frames.path / f"w{number}",
        variables=VARIABLES | {"lat": Variable((), "degrees_north", points=lambda n: np.linspace(-90, 90, n))},
        attributes={"params": "x: 1", "running": [number, 0, 0], "coordinates": "time segment"},
    )
    row = 0
    for segment, length in enumerate([*segments, unended]):
        for _ in range(length):
            values: dict[str, Any] = {
                "position": np.full((2, 3), 1000 * number + row, np.float32),
                "inside": np.array([row % 2, row % 3], bool),
                "time": row / 7,
                "field": np.full(3, row, np.float64),
                "segment": np.int32(segment),
            }
            if late is not None and row >= late:
                values["late"] = np.int16(row)
            writer.append(FRAME, values)
            row += 1
        if segment < len(segments):
            fields = [segment, segment, -1, -1, number, 0, row - length, row, 0]
            writer.append(SEGMENT, {"segments": np.array(fields, np.int64)})
    writer.close()


def everything(frames: Frames, walker: str) -> Iterator[object]:
    """All that there is to read of a walker, in every way."""
    rows, table, attributes = frames.publication(walker, 0)
    yield from (rows, table.tolist(), attributes, frames.count(walker), frames.rows(walker, SEGMENT))
    yield {key: dict(array.attributes) for key, array in frames.stored(walker).items()}
    for name, array in sorted(frames.stored(walker).items()):
        yield name, array.dims, array.rows, array.like.dtype, array.read(0, array.rows).tobytes()
        yield from (array.read(first, first + 1).tobytes() for first in range(array.rows))
    if rows:
        yield {key: value.tobytes() for key, value in frames.row(walker, rows - 1).items()}
        window = Window(frames, [Span(walker, 0, 1), Span(walker, rows // 2, rows)])
        yield {name: window[name].tobytes() for name in window}
        with pytest.raises(StoreError):
            frames.row(walker, rows)


def all_of(frames: Frames) -> dict[str, list[object]]:
    return {walker: list(everything(frames, walker)) for walker in frames.walkers()}


def merge_all(frames: Frames, walkers: list[str], *, fan_in: int, first: int = 0) -> int:
    """Merge until nothing is due, as the engine does; the number of the next group."""
    kinds: dict[str, Hashable] = {}
    while names := merge.due(frames, walkers, kinds, fan_in):
        merge.merge(frames, names, f"m{first}")
        first += 1
        for name in names:
            merge.remove(frames, name)
    return first


walker = st.tuples(st.lists(st.integers(0, 5), max_size=4), st.none() | st.just(2), st.integers(0, 3))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(walkers=st.lists(walker, min_size=1, max_size=9), fan_in=st.integers(2, 3))
def test_every_read_of_merged_walkers_is_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, walkers: list[tuple[list[int], int | None, int]], fan_in: int
) -> None:
    """Walkers without frames too, with variables that come late, and that ended within a segment."""
    frames = Frames(tmp_path_factory.mktemp("law") / "frames.zarr")
    for number, (segments, late, unended) in enumerate(walkers):
        write(frames, number, segments, late=late, unended=unended)
    before, held = all_of(frames), {name: frames.stored(name) for name in frames.walkers()}
    merge_all(frames, frames.walkers(), fan_in=fan_in)
    assert all_of(frames) == before
    assert all_of(Frames(frames.path)) == before, "of one who has not seen it before"
    for name, arrays in pickle.loads(pickle.dumps(held)).items():  # those who look again find it
        assert {key: array.read(0, array.rows).tobytes() for key, array in arrays.items()} == {
            key: array.read(0, array.rows).tobytes() for key, array in frames.stored(name).items()
        }
    for group, of in frames.merged().items():
        assert not list(damages(frames, group))
        assert all((whose(frames, name) == int(name[1:])).all() for name in of)
    assert not merge.left_over(frames)


def test_groups_are_as_few_as_digits_and_files_grow_with_data(tmp_path: Path) -> None:
    """W walkers leave as many groups as the sum of the digits of W, and one for each full shard of a variable."""
    frames, fan_in, next_group = Frames(tmp_path / "frames.zarr"), 4, 0
    for number in range(70):
        write(frames, number, [])
        next_group = merge_all(frames, [f"w{number}" for number in range(number + 1)], fan_in=fan_in, first=next_group)
        groups = len(list(frames.path.iterdir()))
        assert groups == merge.groups_of(number + 1, fan_in)
        assert groups <= (fan_in - 1) * math.ceil(math.log(number + 2, fan_in))
    assert len(frames.walkers()) == 70


@pytest.mark.slow
def test_a_group_with_as_many_full_shards_as_variables_is_merged_no_more(tmp_path: Path) -> None:
    frames = Frames(tmp_path / "frames.zarr")
    for number in range(2):
        write(frames, number, [2 * FEW_ROWS[1]])
    assert merge.due(frames, frames.walkers(), {}, 2) == [], "each of its variables fills two shards"
    for number in range(2, 18):
        write(frames, number, [3])
    merge_all(frames, frames.walkers(), fan_in=2)
    merged = [len(of) for of in frames.merged().values()]
    assert merged == [8, 8], "24 frames fill three shards of five of the seven variables, 12 do not fill two"


def test_only_what_is_alike_is_merged(tmp_path: Path) -> None:
    frames = Frames(tmp_path / "frames.zarr")
    different: list[dict[str, Any]] = [
        {"x": 1.0},
        {"x": 1},
        {"x": [1.0]},
        {"y": 1.0},
        {"x": 1.0, "walker": 1.0},
    ]
    for number, of in enumerate(different):
        writer = GroupWriter(frames.path / f"w{number}")
        writer.append(FRAME, of)
        writer.close()
    writer = GroupWriter(frames.path / "w5", variables={"x": Variable(units="nm")})
    writer.append(FRAME, {"x": 1.0})
    writer.close()
    (frames.path / "w6").mkdir()
    (frames.path / "w6" / "zarr.json").write_text("{")
    assert merge.due(frames, [f"w{number}" for number in range(9)], {}, 2) == []


def test_walkers_without_a_frame_are_merged_and_the_group_is_whole(tmp_path: Path) -> None:
    """They died too soon; the first kill of a campaign may do that to two."""
    frames = Frames(tmp_path / "frames.zarr")
    make_root(frames.path)
    for number in (0, 1):
        GroupWriter(frames.path / f"w{number}").close()
    merge.merge(frames, ["w0", "w1"], "m0")
    read_walkers(frames, "m0")
    assert frames.merged() == {"m0": ["w0", "w1"]}
    for number in (2, 3):
        write(frames, number, [3])
    merge.merge(frames, ["w2", "w3"], "m1")
    metadata = frames.path / "m1" / "zarr.json"
    described = json.loads(metadata.read_text())
    del described["consolidated_metadata"]["metadata"]["walker"]
    metadata.write_text(json.dumps(described))
    with pytest.raises(KeyError):
        read_walkers(Frames(frames.path), "m1")


def test_a_damaged_source_is_not_merged(tmp_path: Path) -> None:
    frames = Frames(tmp_path / "frames.zarr")
    for number in range(2):
        write(frames, number, [3])
    shard = frames.path / "w1" / "time" / "c" / "0"
    shard.write_bytes(b"\xff" + shard.read_bytes()[1:])
    with pytest.raises(DamagedShard):
        merge.merge(frames, ["w0", "w1"], "m0")
    assert sorted(os.listdir(frames.path)) == ["w0", "w1"]


def test_a_merge_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    frames, looks = Frames(tmp_path / "frames.zarr"), list[None]()
    for number in range(2):
        write(frames, number, [3])
    merge.merge(frames, ["w0", "w1"], "m0", stopped=lambda: bool(looks.append(None)))  # type: ignore[func-returns-value]
    merge.remove(frames, "m0")
    for number in range(0, len(looks), 5):
        with pytest.raises(StoreError):
            merge.merge(frames, ["w0", "w1"], "m0", stopped=itertools.chain([False] * number, [True]).__next__)
        assert sorted(os.listdir(frames.path)) == ["w0", "w1"]


def test_a_walker_that_was_taken_for_dead_makes_no_group_anew(tmp_path: Path) -> None:
    """Its folder is gone: its publication fails, also where its next rows are the first of a shard."""
    frames = Frames(tmp_path / "frames.zarr")
    for rows in (3, FEW_ROWS[1]):
        writer = GroupWriter(frames.path / "w0")
        writer.extend(FRAME, {"x": np.arange(rows)})
        writer.publish()
        merge.remove(frames, "w0")
        writer.append(FRAME, {"x": 1})
        with pytest.raises(FileNotFoundError):
            writer.publish()
        assert not (frames.path / "w0").exists()


def test_the_whole_store_opens_in_xarray_and_says_whose_frames_they_are(tmp_path: Path) -> None:
    frames = Frames(tmp_path / "frames.zarr")
    frames.path.mkdir()
    make_root(frames.path)
    for number in range(4):
        write(frames, number, [3])
    merge_all(frames, ["w0", "w1"], fan_in=2)
    with xarray.open_datatree(frames.path, engine="zarr", consolidated=False) as tree:
        assert set(tree.children) == {"w2", "w3", "m0"}
        merged = tree["m0"].to_dataset()
        assert merged["walker"].values.tolist() == [0] * 3 + [1] * 3
        assert merged["position"].attrs["units"] == "nm"
        assert merged["position"].values[:, 0, 0].tolist() == [0, 1, 2, 1000, 1001, 1002]


def test_what_a_merge_replaces_is_removed_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power fails in the moment at which the first of the sources is removed, and that is what reaches the disk."""
    frames = Frames(tmp_path / "frames.zarr")
    for number in range(3):
        write(frames, number, [3, 4], late=2)
    before, disk = all_of(frames), Disk(frames.path, monkeypatch)
    merge.merge(frames, ["w0", "w1"], "m0")
    left = Frames(disk.after_power_failure(tmp_path / "left"))
    for name in ("w0", "w1"):
        merge.remove(left, name)
    assert sorted(os.listdir(left.path)) == ["m0", "w2"]
    assert all_of(left) == before


def operations(work: Callable[[], object], kill_at: int | None = None) -> int:
    """Run in a process of its own; count what it does to files, or kill it before the operation of a number."""
    context = multiprocessing.get_context("fork")
    count = context.Value("q", 0)

    def child() -> None:
        def hook(event: str, args: tuple[Any, ...]) -> None:
            write = event == "open" and bool((args[2] or 0) & (os.O_WRONLY | os.O_RDWR))
            if write or event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
                if count.value == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                count.value += 1

        sys.addaudithook(hook)
        work()
        os._exit(0)

    process = context.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == (0 if kill_at is None else -signal.SIGKILL)
    return int(count.value)


@pytest.mark.slow
def test_whenever_it_is_killed_every_frame_is_there_once(tmp_path: Path) -> None:
    """Killed before each thing that it does to a file, from the first that it writes to the last that it removes."""
    frames = Frames(tmp_path / "frames.zarr")
    for number in range(4):
        writer = GroupWriter(frames.path / f"w{number}", attributes={"running": number})
        writer.extend(FRAME, {"x": number + np.arange(3.0)})
        writer.close()
    merge_all(frames, ["w0", "w1"], fan_in=2)
    before = all_of(frames)

    def work() -> None:
        merge_all(Frames(frames.path), ["w2", "w3"], fan_in=2, first=1)

    shutil.copytree(frames.path, tmp_path / "kept")
    total = operations(work)
    assert sorted(os.listdir(frames.path)) == ["m2"]
    for number in range(0, total, 7):
        shutil.rmtree(frames.path)
        shutil.copytree(tmp_path / "kept", frames.path)
        operations(work, kill_at=number)
        found = Frames(frames.path)
        assert all_of(found) == before, f"killed before operation {number} of {total}"
        for name in merge.left_over(found):
            merge.remove(found, name)
        merge_all(found, ["w2", "w3"], fan_in=2, first=3)
        assert len(os.listdir(frames.path)) == 1
        assert all_of(Frames(frames.path)) == before


def test_a_flipped_bit_of_the_tables_costs_few_of_the_walkers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen walkers of twenty segments, merged: a damaged chunk costs those whose segments are in it."""
    monkeypatch.undo()
    make_root(tmp_path)
    frames = Frames(tmp_path)
    for number in range(16):
        write(frames, number, [1] * 20)
    merge.merge(frames, [f"w{number}" for number in range(16)], "m0")
    for number in range(16):
        merge.remove(frames, f"w{number}")
    shard = frames.path / "m0" / "segments" / "c" / "0" / "0"
    whole = shard.read_bytes()
    for at in range(0, 16 * 20 * 9 * 8, 997):  # nine columns of eight bytes
        shard.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        lost = 0
        for number in range(16):
            try:
                frames.read_table(f"w{number}")
            except DamagedShard:
                lost += 1
        assert 1 <= lost <= 5, "64 segments are of five walkers at most"
