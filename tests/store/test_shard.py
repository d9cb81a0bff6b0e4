"""Shards are written by us and read by every Zarr: they are the bytes that zarr-python itself would write."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from steersman.store import DamagedShard, shard
from steersman.store.metadata import _PACK_BITS
from steersman.store.shard import encode_shard, read_rows, shard_file

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
CHUNK, SHARD = 4, 12


@pytest.mark.parametrize("rows", [1, CHUNK, CHUNK + 1, SHARD])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", ">f8"])
def test_a_shard_is_the_one_that_zarr_writes(dtype: str, rows: int) -> None:
    """Chunks that are full, begun, or not there; numbers of either byte order; bits that do not fill their bytes."""
    numbers = np.arange(1, 1 + rows * 15).reshape(rows, 3, 5)  # no chunk of zeros alone, which zarr would leave out
    values = (numbers % 7 > 0) if dtype == "bool" else numbers.astype(dtype)
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(
        store, shape=(SHARD, 3, 5), chunks=(CHUNK, 3, 5), shards=(SHARD, 3, 5), dtype=values.dtype, fill_value=0,
        filters=[_PACK_BITS] if dtype == "bool" else None, compressors=[Crc32cCodec()],
    )  # fmt: skip
    array[:rows] = values
    assert encode_shard(values, 0, CHUNK, SHARD) == store._store_dict["c/0/0/0"].to_bytes()


@pytest.mark.parametrize("shape", [(), (3, 5)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_a_row_is_the_one_that_was_written(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """Any row of any shard; the fill value where a chunk has no row yet; a chunk that is not there is no row."""
    rows = np.random.default_rng(0).integers(0, 5, (SHARD + CHUNK + 1, *shape)).astype(dtype)
    like = np.full(shape, 1, dtype)
    for number, first in enumerate((0, SHARD)):
        file = shard_file(tmp_path, number, like)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_shard(rows[first : first + SHARD], 1, CHUNK, SHARD))
    for row, written in enumerate(rows):
        found = read_rows(tmp_path, row, row + 1, like, (CHUNK, SHARD))[0]
        assert found.dtype == like.dtype
        assert np.array_equal(found, written)
    assert np.array_equal(read_rows(tmp_path, len(rows), len(rows) + 1, like, (CHUNK, SHARD))[0], like)
    with pytest.raises(DamagedShard):
        read_rows(tmp_path, 2 * SHARD - 1, 2 * SHARD, like, (CHUNK, SHARD))


@pytest.mark.parametrize("shape", [(), (3, 5)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex64"])
def test_any_rows_are_those_that_were_written(
    dtype: str, shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any row to any other, over chunks and shards, whatever is decoded together; behind them there is nothing."""
    rows = np.random.default_rng(0).integers(0, 5, (2 * SHARD + CHUNK, *shape)).astype(dtype)
    like = np.full(shape, 1, dtype)
    for number, first in enumerate(range(0, len(rows), SHARD)):
        file = shard_file(tmp_path, number, like)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode_shard(rows[first : first + SHARD], 1, CHUNK, SHARD))
    with pytest.raises(DamagedShard):
        read_rows(tmp_path, 0, len(rows) + 1, like, (CHUNK, SHARD))
    for at_once in (1, 2**20):
        monkeypatch.setattr(shard, "READ_BYTES", at_once)
        for first in range(len(rows)):
            for end in range(first, len(rows) + 1):
                found = read_rows(tmp_path, first, end, like, (CHUNK, SHARD))
                assert found.dtype == like.dtype
                assert np.array_equal(found, rows[first:end])


def test_rows_of_a_shard_that_is_missing_are_no_rows_but_before_their_variable_came(tmp_path: Path) -> None:
    """But those of a group that is there no more are looked for elsewhere, see `Stored`."""
    like, array = np.full((), 7), tmp_path / "x"
    with pytest.raises(FileNotFoundError):
        read_rows(array, 0, 2, like, (CHUNK, SHARD), since=SHARD)
    (tmp_path / "zarr.json").touch()
    with pytest.raises(DamagedShard):
        read_rows(array, 0, 2, like, (CHUNK, SHARD))
    for since in (SHARD, 2 * SHARD - 1):
        assert read_rows(array, 0, 2, like, (CHUNK, SHARD), since=since).tolist() == [7, 7]
        with pytest.raises(DamagedShard):
            read_rows(array, SHARD, SHARD + 1, like, (CHUNK, SHARD), since=since)


def test_a_changed_byte_of_a_row_is_told(tmp_path: Path) -> None:
    like, file = np.zeros((), np.int32), tmp_path / "c" / "0"
    file.parent.mkdir()
    written = encode_shard(np.arange(CHUNK, dtype=np.int32), 0, CHUNK, SHARD)
    other = [bytearray(written) for _ in range(2)]
    other[0][0] ^= 1
    other[1][-1] ^= 1
    for changed in (*map(bytes, other), written[:-1], written[:7], b""):
        file.write_bytes(changed)
        with pytest.raises(DamagedShard, match="verify RUN --repair") as told:
            read_rows(tmp_path, 0, 1, like, (CHUNK, SHARD))
        assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
