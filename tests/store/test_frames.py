"""Laws of the store: what is published is there, is right, and stays; nothing else is seen."""

import gc
import multiprocessing
import shutil
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.store import (
    FRAME,
    SEGMENT,
    BadVariable,
    DamagedShard,
    Frames,
    GroupWriter,
    MissingVariable,
    Span,
    StoreError,
    Variable,
    Window,
    finish,
    make_root,
)
from steersman.store.check import damages
from steersman.store.column import SHARD_ROWS, chunk_and_shard

# zarr says once per process that packbits is not yet in the Zarr 3 text; users see that too
pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")


def frame(i: int) -> dict[str, np.ndarray]:
    """A frame whose every number tells its row."""
    bits = np.array([[i >> (3 * r + c) & 1 for c in range(3)] for r in range(3)], dtype=bool)
    return {"contacts": bits, "positions": np.full((4, 3), i + 1, np.float32), "time": np.array(i + 1.0)}


def write(path: Path, rows: int, every: int) -> None:
    writer = GroupWriter(path)
    for i in range(rows):
        writer.append(FRAME, frame(i))
        if i % every == 0:
            writer.publish()
    writer.close()


@pytest.fixture
def frames(tmp_path: Path) -> Frames:
    return Frames(tmp_path / "frames.zarr")


def test_unpublished_rows_are_not_there(frames: Frames) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, frame(0))
    assert frames.count("w0") == 0
    writer.publish()
    writer.append(FRAME, frame(1))
    assert frames.count("w0") == 1
    with pytest.raises(StoreError, match="row 1"):
        frames.row("w0", 1)


def test_a_row_comes_back_as_it_was(frames: Frames) -> None:
    write(frames.path / "w0", 300, every=7)
    for i in (0, 1, 255, 256, 299):
        row = frames.row("w0", i)
        assert {name: row[name].tolist() for name in row} == {name: v.tolist() for name, v in frame(i).items()}


@settings(max_examples=25)
@given(blocks=st.lists(st.integers(1, 40), min_size=1, max_size=12), publish=st.lists(st.booleans(), min_size=12))
def test_any_order_of_appends_and_publications_reads_as_a_list(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[int], publish: list[bool]
) -> None:
    frames = Frames(tmp_path_factory.mktemp("model") / "frames.zarr")
    writer = GroupWriter(frames.path / "w0")
    model: list[float] = []
    seen = 0
    for size, now in zip(blocks, publish, strict=False):
        block = np.arange(len(model), len(model) + size, dtype=np.float64)
        assert writer.extend(FRAME, {"x": block}) == len(model)
        model += block.tolist()
        if now:
            writer.publish()
            seen = len(model)
        if seen:
            assert frames.read("x", Span("w0", 0, seen)).tolist() == model[:seen]
        assert frames.count("w0") == seen
    writer.close()
    assert frames.read("x", Span("w0", 0, len(model))).tolist() == model


def test_rows_cross_shards_unharmed(frames: Frames) -> None:
    """More rows than a shard holds: full shards leave memory, nothing is lost between them."""
    writer = GroupWriter(frames.path / "w0")
    rows = 2 * SHARD_ROWS + 77
    for first in range(0, rows, 5_000):
        writer.extend(FRAME, {"x": np.arange(first, min(rows, first + 5_000))})
        writer.publish()
    writer.close()
    assert (frames.read("x", Span("w0", 0, rows)) == np.arange(rows)).all()
    assert len([p for p in (frames.path / "w0" / "x" / "c").iterdir() if p.is_file() or p.is_dir()]) == 3


GROUPS = """
import sys
from pathlib import Path
import numpy as np
import psutil
from steersman.store import FRAME, GroupWriter

before = psutil.Process().memory_info().rss
writers = [GroupWriter(Path(sys.argv[1], f"w{number}")) for number in range(30)]
for writer in writers:
    writer.append(FRAME, {"x": np.zeros(8)})
print(psutil.Process().memory_info().rss - before)
"""


def test_a_group_takes_the_memory_of_its_rows_and_not_of_its_shards(tmp_path: Path) -> None:
    """Hundreds of walkers of a node have each an open shard of every variable, of 2 MiB here.

    In a process of its own: one that has freed large arrays may get their memory again, in pages of 2 MiB.
    """
    took = subprocess.run([sys.executable, "-c", GROUPS, tmp_path], check=True, capture_output=True).stdout
    assert int(took) < 30 * 2**20


def test_a_variable_that_comes_late_is_missing_before(frames: Frames) -> None:
    """Also where its first rows lie behind those of a shard."""
    writer = GroupWriter(frames.path / "w0")
    writer.extend(FRAME, {"x": np.arange(SHARD_ROWS + 5)})
    writer.extend(FRAME, {"x": np.arange(3), "late": np.ones(3)})
    writer.close()
    late = frames.read("late", Span("w0", 0, SHARD_ROWS + 8))
    assert np.isnan(late[:-3]).all()
    assert (late[-3:] == 1).all()


def test_a_shard_that_is_lost_is_never_read_as_fill_values(frames: Frames) -> None:
    """The first one neither; shards before the first row of a late variable were never made, and are not missing."""
    writer = GroupWriter(frames.path / "w0")
    writer.extend(FRAME, {"x": np.arange(SHARD_ROWS + 5.0)})
    writer.extend(FRAME, {"x": np.arange(SHARD_ROWS + 5.0), "late": np.ones(SHARD_ROWS + 5)})
    writer.close()
    assert list(damages(frames, "w0")) == []
    for variable in ("x", "late"):
        for shard in sorted((frames.path / "w0" / variable / "c").iterdir()):
            held, number = shard.read_bytes(), int(shard.name)
            shard.unlink()
            assert next(damages(frames, "w0")) == f"{variable}: shard {number} is missing"
            with pytest.raises(DamagedShard):
                frames.read(variable, Span("w0", number * SHARD_ROWS, number * SHARD_ROWS + 1))
            shard.write_bytes(held)


def test_a_file_that_a_killed_process_left_half_written_is_no_shard(frames: Frames) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.extend(FRAME, {"x": np.arange(SHARD_ROWS + 5)})
    writer.extend(FRAME, {"x": np.arange(3), "late": np.ones(3)})
    writer.close()
    for variable in ("x", "late"):
        (frames.path / "w0" / variable / "c" / "0.18c8bd5c32be4f7095197608e6a28274.partial").write_bytes(b"begun")
    assert list(damages(frames, "w0")) == []
    assert np.isnan(frames.read("late", Span("w0", 0, SHARD_ROWS))).all()


def test_a_variable_may_come_while_a_publication_goes_on(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walker publishes in a thread of its own, and may append the first row of its table of segments just then."""
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, {"x": 1})
    pending = writer._columns["x"].pending
    with ThreadPoolExecutor(1) as beside:

        def meanwhile() -> dict[int, np.ndarray]:
            beside.submit(writer.append, FRAME, {"x": 2, "late": 3})
            while not (writer.path / "late" / "zarr.json").exists():
                pass
            return pending()

        monkeypatch.setattr(writer._columns["x"], "pending", meanwhile)
        assert writer.publish() == {FRAME: 1}
    monkeypatch.undo()
    writer.close()
    assert [frames.read(name, Span("w0", 0, 2)).tolist() for name in ("x", "late")] == [[1, 2], [0, 3]]


def test_rows_that_could_not_be_written_are_written_by_the_next_publication(frames: Frames) -> None:
    """A folder stands where the second shard is to lie; the first one, full by then, is not forgotten either."""
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, {"x": 0})
    writer.publish()
    in_the_way = frames.path / "w0" / "x" / "c" / "1"
    in_the_way.mkdir()
    writer.extend(FRAME, {"x": np.arange(1, SHARD_ROWS + 5)})
    with pytest.raises(OSError, match="directory"):
        writer.publish()
    assert frames.count("w0") == 1
    in_the_way.rmdir()
    writer.close()
    assert (frames.read("x", Span("w0", 0, SHARD_ROWS + 5)) == np.arange(SHARD_ROWS + 5)).all()


def test_the_whole_store_opens_while_it_grows_and_shows_what_is_published(frames: Frames) -> None:
    """Also while a walker makes its group; frames are grouped by the segment that made them."""
    make_root(frames.path)
    make_root(frames.path)
    writers = [GroupWriter(frames.path / f"w{i}", attributes={"coordinates": "time segment"}) for i in range(2)]
    for i, writer in enumerate(writers):
        for row in range(6):
            writer.append(FRAME, frame(row) | {"segment": np.int32(row // 3)})
        for number in range(i):
            writer.append(SEGMENT, {"segments": np.array([number])})
        writer.publish()
        writer.append(FRAME, frame(6) | {"segment": np.int32(2)})
    with xarray.open_datatree(frames.path, engine="zarr", consolidated=False) as tree:
        assert set(tree.children) == {"w0", "w1"}
        assert [tree[name].sizes[FRAME] for name in ("w0", "w1")] == [6, 6]
        means = tree["w1"].to_dataset().groupby("segment").mean()
        assert means["positions"].values[:, 0, 0].tolist() == [2, 5]
    (frames.path / "w2").mkdir()
    with (
        pytest.warns((UserWarning, RuntimeWarning), match="w2|consolidated=False"),
        xarray.open_datatree(frames.path) as tree,
    ):
        assert tree["w0"].sizes[FRAME] == 6
    shutil.copytree(frames.path / "w1", frames.path / "w1.bak")
    assert frames.walkers() == ["w0", "w1"]


def test_a_variable_that_is_left_out_is_told_as_missing(frames: Frames) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.append(SEGMENT, {"number": np.int64(0)})
    writer.append(SEGMENT, {"number": np.int64(1), "velocities": np.ones(3, np.float32)})
    writer.close()
    velocities = [frames.row("w0", i, dimension=SEGMENT)["velocities"] for i in (0, 1)]
    assert np.isnan(velocities[0]).all()
    assert (velocities[1] == 1).all()


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (np.int32(1), np.int64(2**40)),
        (np.int64(1), np.uint64(2**63 + 5)),
        (np.uint8(1), np.uint16(256)),
        (np.float64(1), 2**53 + 1),
        (np.float32(1), 1e300),
        (np.complex64(1), 1e300j),
        (np.datetime64("2020-01-01"), np.datetime64("2020-01-02T06")),
        (np.timedelta64(1, "s"), np.timedelta64(1, "ms")),
    ],
)
def test_a_value_that_its_variable_cannot_hold_is_refused(frames: Frames, first: Any, later: Any) -> None:
    """Frames, scores and states alike; one that it can hold is stored whatever its dtype."""
    writer = GroupWriter(frames.path / "w0")
    for dimension in (FRAME, SEGMENT):
        writer.append(dimension, {f"x_{dimension}": first})
        with pytest.raises(BadVariable):
            writer.append(dimension, {f"x_{dimension}": later})
        writer.append(dimension, {f"x_{dimension}": np.asarray(first).astype(np.asarray(later).dtype)})
    writer.close()
    for dimension in (FRAME, SEGMENT):
        assert frames.read(f"x_{dimension}", Span("w0", 0, 2), dimension=dimension).tolist() == [first, first]


@pytest.mark.parametrize("value", [np.longlong(7), np.ulonglong(7), 2**63, np.int8(7), np.datetime64("2020", "s")])
def test_a_number_of_any_name_is_stored(frames: Frames, value: Any) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, {"x": value})
    writer.close()
    assert frames.read("x", Span("w0", 0, 1))[0] == value


@pytest.mark.parametrize("wrong", [{"dims": (2,)}, {"dims": "atom"}, {"points": [0.0, 1.0]}])
def test_what_means_nothing_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    """A shape in place of names, one name as text, points in place of a function: `check` finds it, before a run."""
    with pytest.raises(TypeError, match="Variable"):
        Variable(**wrong)


def test_another_shape_is_refused_before_anything_is_stored(frames: Frames) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, frame(0))
    with pytest.raises(BadVariable, match="'positions'"):
        writer.append(FRAME, {**frame(1), "positions": np.zeros((5, 3), np.float32)})
    writer.close()
    assert frames.count("w0") == 1


def test_a_group_opens_in_xarray_with_names_and_units(frames: Frames) -> None:
    variables = {"contacts": Variable(("residue", "residue2"), "1", "contacts"), "time": Variable((), "ps", "time")}
    writer = GroupWriter(frames.path / "w0", variables=variables, attributes={"seed": 7})
    writer.append(FRAME, frame(3))
    writer.publish()
    with xarray.open_zarr(frames.path / "w0") as data:
        assert data.sizes["frame"] == 1
        assert data["contacts"].dims == ("frame", "residue", "residue2")
        assert data["time"].attrs["units"] == "ps"
        assert data.attrs["seed"] == 7


ROWS = st.dictionaries(
    st.sampled_from("axy"),
    st.lists(st.tuples(st.sampled_from(["a", "b", "x", FRAME, SEGMENT, "", "a/b"]), st.integers(1, 2)), max_size=2),
    min_size=1,
)


@pytest.mark.filterwarnings("ignore:Duplicate dimension names present")
@settings(max_examples=60, deadline=None)
@given(rows=ROWS, points=st.sampled_from([None, 1, 2]))
def test_what_is_stored_opens_whatever_its_dimensions_are_called(
    rows: dict[str, list[tuple[str, int]]], points: int | None
) -> None:
    """Two variables that share a dimension share its points, or nothing is stored."""
    meaning = {name: Variable(tuple(dim for dim, _ in dims)) for name, dims in rows.items()}
    if points:
        meaning["b"] = Variable((), points=lambda _: np.arange(points))
    values = {name: np.full([1, *(size for _, size in dims)], 7.0) for name, dims in rows.items()}
    with TemporaryDirectory() as folder:
        writer = GroupWriter(Path(folder) / "w0", variables=meaning)
        try:
            writer.extend(FRAME, values)
        except BadVariable:
            assert writer.rows == {}
            return
        writer.close()
        stored = xarray.open_zarr(writer.path)
        for name, value in values.items():
            np.testing.assert_array_equal(stored[name].values, value)


def test_a_closed_group_reads_the_same_without_consolidated_metadata(frames: Frames) -> None:
    write(frames.path / "w0", 100, every=9)
    with xarray.open_zarr(frames.path / "w0", consolidated=False) as data:
        assert data.sizes["frame"] == 100
        assert data["time"].values.tolist() == [i + 1 for i in range(100)]


def alone(path: Path) -> dict[str, int]:
    """Rows of each array as a program sees them that opens it without its group."""
    arrays = {name: zarr.open_array(path / name, mode="r") for name in ("x", "late")}
    assert all(np.array_equal(np.asarray(array[:]), np.arange(array.shape[0])) for array in arrays.values())
    return {name: array.shape[0] for name, array in arrays.items()}


def test_an_array_that_is_opened_alone_is_behind_and_never_ahead(
    frames: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a writer that lives by ten seconds, of one that was killed until the driver finishes its group."""
    writer, now = GroupWriter(frames.path / "w0"), [100.0]
    monkeypatch.setattr("steersman.store.group.time", SimpleNamespace(monotonic=lambda: now[0]))
    seen = []
    for first in range(0, 30, 3):
        block = np.arange(first, first + 3)
        writer.extend(FRAME, {"x": block, "late": block})
        writer.publish()
        now[0] += 4.0
        seen.append(alone(frames.path / "w0"))
    assert [each["x"] for each in seen] == [3, 3, 3, 12, 12, 12, 21, 21, 21, 30]
    assert all(each["x"] == each["late"] for each in seen)
    writer.extend(FRAME, {"x": np.arange(30, 37), "late": np.arange(30, 37)})
    writer.publish()
    (frames.path / "w0" / "late" / "zarr.json").rename(frames.path / "w0" / "late" / "zarr.json.lost")
    finish(frames.path / "w0")  # whatever is damaged stays, for `verify`
    (frames.path / "w0" / "late" / "zarr.json.lost").rename(frames.path / "w0" / "late" / "zarr.json")
    finish(frames.path / "w0")
    assert alone(frames.path / "w0") == {"x": 37, "late": 37}
    finish(frames.path / "w7")


def test_the_arrays_of_a_window_go_with_it(frames: Frames) -> None:
    """Now, and not when the garbage collector comes: of large frames few objects are made, so it seldom does."""
    write(frames.path / "w0", 5, every=5)
    window = Window(frames, [Span("w0", 0, 3)])
    array = weakref.ref(window[next(iter(window))])
    gc.disable()
    try:
        del window
        assert array() is None
    finally:
        gc.enable()


def test_a_window_is_read_once_and_in_order(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    write(frames.path / "w0", 50, every=10)
    write(frames.path / "w1", 20, every=10)
    window = Window(frames, [Span("w1", 5, 8), Span("w0", 0, 2)])
    assert Window(frames, [Span("w0", 1, 4), Span("w1", 6, 7)]).ids.tolist() == [1, 2, 3, window.ids[1]]
    assert len(set(window.ids)) == window.rows
    late = Window(
        frames, [Span(f"w{w}", row, row + 1) for w in (0, 1, 2**20) for row in (0, *(2**e for e in range(40)))]
    )
    assert len(set(late.ids.tolist())) == late.rows, "of long runs, too"
    assert window.rows == 5
    assert window["time"].tolist() == [6, 7, 8, 1, 2]
    monkeypatch.setattr(frames, "read", None)  # reading again would fail
    assert window["time"].tolist() == [6, 7, 8, 1, 2]
    with pytest.raises(StoreError):
        Window(frames, [Span("w0", 4, 4)])


@pytest.mark.parametrize("lag", [1, 2, 3, 7])
def test_pairs_one_lag_apart_are_all_those_of_one_segment(frames: Frames, lag: int) -> None:
    """Also where the next rows are those of the next segment, and of segments that are shorter than the lag."""
    write(frames.path / "w0", 20, every=5)
    write(frames.path / "w1", 9, every=5)
    spans = [Span("w0", 0, 5), Span("w1", 2, 9), Span("w0", 5, 7), Span("w0", 7, 8), Span("w0", 11, 19)]
    window = Window(frames, spans)
    pairs = window.lagged(lag)
    known = [(span, row) for span in spans for row in range(span.first, span.end)]
    of = {each: place for place, each in enumerate(known)}
    whole = [(place, of[span, row + lag]) for place, (span, row) in enumerate(known) if (span, row + lag) in of]
    assert pairs.tolist() == [list(each) for each in whole]
    assert (window["time"][pairs[:, 1]] - window["time"][pairs[:, 0]] == lag).all()
    assert Window(frames, [Span("w0", 7, 8)]).lagged(lag).shape == (0, 2)
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="lag"):
            window.lagged(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("row_bytes", [1, 8, 100, 784, 2_000, 6_048, 98_304, 10**7])
def test_chunks_divide_shards_and_files_stay_few(row_bytes: int) -> None:
    chunk, shard = chunk_and_shard(row_bytes)
    assert shard % chunk == 0
    assert chunk * row_bytes <= max(row_bytes, 128 * 2**10)
    assert shard * row_bytes <= max(chunk * row_bytes, 8 * 2**20)


def test_a_million_frames_of_a_small_protein_are_fewer_than_a_thousand_files() -> None:
    """28 residues, 504 atoms: contacts, positions, energy, time, segment and the table of segments."""
    row_bytes = {"contacts": 28 * 28, "positions": 504 * 12, "energy": 8, "time": 8, "segment": 4, "table": 72}
    assert sum(-(-(10**6) // chunk_and_shard(size)[1]) + 1 for size in row_bytes.values()) < 1000


def steady_writer(path: Path, stop: "multiprocessing.synchronize.Event") -> None:
    writer = GroupWriter(path)
    i = 0
    while not stop.is_set():
        for _ in range(13):
            writer.append(FRAME, frame(i))
            i += 1
        writer.publish()
    writer.close()


@pytest.fixture
def written_beside(tmp_path: Path) -> Iterator[Path]:
    """A group that another process goes on writing."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writer = context.Process(target=steady_writer, args=(tmp_path / "frames.zarr" / "w0", stop))
    writer.start()
    frames = Frames(tmp_path / "frames.zarr")
    while not frames.walkers() or not frames.count("w0"):
        assert writer.is_alive()
    yield tmp_path / "frames.zarr" / "w0"
    stop.set()
    writer.join(60)


@pytest.mark.slow
def test_a_reader_beside_the_writer_never_sees_a_frame_that_is_not_there(written_beside: Path) -> None:
    """150 looks while the writer publishes 13 rows at a time: every published row is whole and right."""
    seen, rng = [0], np.random.default_rng(0)
    for look in range(150):
        with xarray.open_zarr(written_beside) as data:
            rows = data.sizes["frame"]
            assert rows % 13 == 0, "a publication is all or nothing"
            assert rows >= seen[-1], "published rows stay"
            seen.append(rows)
            some = np.unique(np.r_[rows - 1, rng.integers(0, rows, 3)])
            assert data["time"][-13:].values.tolist() == [i + 1.0 for i in range(rows - 13, rows)]
            right = [frame(int(i)) for i in some]
            for name in ("positions", "contacts"):
                found, wanted = data[name][some].values, np.stack([each[name] for each in right])
                assert np.array_equal(found, wanted), f"look {look}: {name} of rows {some} of {rows}"
    assert seen[-1] > seen[1], "the writer went on meanwhile"


def test_importing_the_store_tells_no_warning() -> None:
    code = "import warnings; warnings.simplefilter('error'); import steersman.store.metadata"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_does_not_warn(frames: Frames) -> None:
    write(frames.path / "w0", 3, every=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Frames(frames.path).count("w0") == 3


def test_walkers_whose_frames_differ_in_shape_are_named_with_both_shapes(frames: Frames) -> None:
    """As after a parameter that sets a size was changed: each walker has a group of its own."""
    for walker, size in (("w0", 3), ("w1", 3), ("w2", 2)):
        writer = GroupWriter(frames.path / walker)
        writer.append(FRAME, {"x": np.zeros(size), "time": 1.0})
        writer.publish()
    window = Window(frames, frames.spans())
    assert window["time"].shape == (3,)
    with pytest.raises(BadVariable) as told:
        window["x"]
    assert told.value.variable == "x"
    assert all(words in told.value.problem for words in ("(3,) (of w0)", "(2,) (of w2)"))


def test_a_variable_that_is_not_there_is_told_with_those_that_are(frames: Frames) -> None:
    writer = GroupWriter(frames.path / "w0")
    writer.append(FRAME, {"x": 1.0, "time": 1.0})
    writer.publish()
    for mapping in (Window(frames, frames.spans()), frames.row("w0", 0)):
        assert "X" not in mapping
        assert mapping.get("X") is None
        with pytest.raises(MissingVariable, match=r"'X'.*: (x, time|time, x)$"):
            mapping["X"]
