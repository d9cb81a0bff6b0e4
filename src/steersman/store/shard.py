"""Rows <-> the bytes of one shard, as Zarr's sharding codec lays them out: its chunks, then where each of them is.

zarr-python reads a shard before it writes it again, and hands each chunk from thread to thread: a publication of five
small variables took 8 ms of processor time, and takes 0.5 so. It reads these, and so does every other Zarr. Rows are
read here, too, from one that a walker waits for to all of a training: five times as fast as by its codec pipeline.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import google_crc32c
import numpy as np

from steersman.store.errors import DamagedShard
from steersman.system.reading import MOST, OddFile, is_inside

READ_BYTES = 2**20  # of chunks that are decoded together
CHECKSUM = 4  # bytes
NOT_THERE = 2**64 - 1  # offset and length of a chunk that a shard has not


def encode_shard(rows: np.ndarray, fill: object, chunk_rows: int, shard_rows: int) -> bytes:
    """Encode the rows of a shard: booleans packed, numbers little-endian, a CRC-32C behind each chunk and the index.

    Args:
        rows: (n, ...), 0 < n <= shard_rows; the last chunk is filled up, so that it keeps its length when more come.
        fill: what rows have that are not there.
        chunk_rows: rows of a chunk; divides shard_rows.
    Source: Zarr v3, sharding codec 1.0 (index at the end), crc32c codec 1.0; numcodecs, packbits.
    """
    chunks = [_with_checksum(_plain(chunk)) for chunk in _chunks(rows, fill, chunk_rows)]
    index = np.full((shard_rows // chunk_rows, 2), NOT_THERE, "<u8")
    index[: len(chunks), 1] = lengths = [len(chunk) for chunk in chunks]
    index[: len(chunks), 0] = np.cumsum([0, *lengths[:-1]])
    return b"".join([*chunks, _with_checksum(index.tobytes())])


def shard_file(array: Path, number: int, like: np.ndarray) -> Path:
    """Where a shard of an array lies that is cut along its rows alone; `like` is one of these."""
    return array.joinpath("c", str(number), *["0"] * like.ndim)


def shards_there(array: Path) -> set[int]:
    """The numbers of an array's shards on disk. A file that a killed process left half written is none."""
    return {int(each.name) for each in (array / "c").glob("*") if each.name.isdecimal()}


def read_rows(
    array: Path, first: int, end: int, like: np.ndarray, layout: tuple[int, int], *, since: int = 0
) -> np.ndarray:
    """Read rows [first, end) of an array on disk.

    Args:
        like: a row as it is where none was written: shape, dtype, fill value.
        layout: rows of a chunk and of a shard, as they were written.
        since: the row at which the variable came: rows of shards before that are not there are fill values.
    Returns: (end - first, ...).
    Raises: DamagedShard: a checksum is wrong, or a shard is cut off, older than its rows, or missing.
        FileNotFoundError: the array's group is there no more. OddFile: a shard is no regular file of the store.
    """
    rows, shard_rows = np.empty((end - first, *like.shape), like.dtype), layout[1]
    for number in range(first // shard_rows, -(-end // shard_rows)):
        begin = max(first, number * shard_rows)
        part = rows[begin - first : min(end, (number + 1) * shard_rows) - first]
        file = shard_file(array, number, like)
        try:
            with open_inside(file, array.parent.parent) as opened:
                _read_shard(opened, begin - number * shard_rows, part, like, layout)
        except FileNotFoundError:
            if not (array.parent / "zarr.json").exists():
                raise
            if (number + 1) * shard_rows > since:
                raise DamagedShard(str(file)) from None
            part[...] = like
    return rows


def open_inside(file: Path, store: Path) -> FileIO:
    """As `system.reading.opened`, which looks at each folder on the way every time, and takes longer than the read.

    Raises: OddFile: no regular file, or one that lies elsewhere. OSError.
    """
    if not _lies_in(str(file.parent), str(store)):
        raise OddFile(str(file), "a symbolic link leads out of the store")
    try:
        opened = FileIO(file, opener=_regular)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OddFile(str(file), "it is a symbolic link") from None
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OddFile(str(file), "it is no regular file")
    return opened


def read_inside(file: Path, store: Path) -> bytes:
    """Raises: as `open_inside`; OddFile: also where it is larger than any that a run writes."""
    with open_inside(file, store) as opened:
        if os.fstat(opened.fileno()).st_size > MOST:
            raise OddFile(str(file), f"it has more than {MOST:,} bytes; a run writes no such file")
        return opened.readall()


def _regular(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would wait for who writes into it


@functools.lru_cache(maxsize=2**14)
def _lies_in(folder: str, store: str) -> bool:
    return is_inside(Path(folder), Path(store))


def _length(like: np.ndarray, chunk_rows: int) -> int:
    """Bytes of an encoded chunk."""
    values = chunk_rows * like.size
    return (1 + -(-values // 8) if like.dtype.kind == "b" else values * like.itemsize) + CHECKSUM


def _read_shard(opened: FileIO, first: int, out: np.ndarray, like: np.ndarray, layout: tuple[int, int]) -> None:
    """Read rows of a shard from `first` on; some chunks at a time, so that they stay in the processor's cache."""
    chunk_rows, shard_rows = layout
    index_bytes, size = 16 * (shard_rows // chunk_rows) + CHECKSUM, os.fstat(opened.fileno()).st_size
    index = _read(opened, size - index_bytes, 1, index_bytes).view("<u8").reshape(-1, 2)
    length, there = _length(like, chunk_rows), int(np.count_nonzero(index[:, 0] != NOT_THERE))
    if length > size:
        raise DamagedShard(str(opened.name))
    if not (index[:there] == np.stack([np.arange(there) * length, np.full(there, length)], axis=1)).all():
        raise DamagedShard(str(opened.name))
    done = 0
    while (left := len(out) - done) > 0:
        chunk, skip = divmod(first + done, chunk_rows)
        if chunk >= there:
            raise DamagedShard(str(opened.name))  # an older version of it: all rows that are published were written
        if skip or left < chunk_rows:
            rows = _decoded(_read(opened, chunk * length, 1, length), like, chunk_rows)[0, skip : skip + left]
        else:
            some = min(left // chunk_rows, there - chunk, max(1, READ_BYTES // length))
            rows = _decoded(_read(opened, chunk * length, some, length), like, chunk_rows)
        count = rows.size // like.size
        out[done : done + count].reshape(rows.shape)[...] = rows
        done += count


def _read(opened: FileIO, offset: int, count: int, length: int) -> np.ndarray:
    """(count, length - CHECKSUM) bytes of pieces that lie one behind another, each with its checksum."""
    pieces = np.empty((count, length), np.uint8)
    if offset < 0 or os.preadv(opened.fileno(), [pieces.data], offset) != pieces.nbytes:
        raise DamagedShard(str(opened.name))
    plain, checksums = pieces[:, :-CHECKSUM], pieces[:, -CHECKSUM:].copy().view("<u4")[:, 0]
    if any(google_crc32c.value(piece) != checksum for piece, checksum in zip(plain, checksums.tolist(), strict=True)):
        raise DamagedShard(str(opened.name))
    return plain


def _decoded(plain: np.ndarray, like: np.ndarray, chunk_rows: int) -> np.ndarray:
    """(chunks, bytes) -> (chunks, rows, ...); numbers are not copied."""
    if like.dtype.kind == "b":
        values = np.unpackbits(plain[:, 1:], axis=1, count=chunk_rows * like.size).view(bool)
    else:
        values = plain.view(like.dtype.newbyteorder("<"))
    return values.reshape(len(plain), chunk_rows, *like.shape)


def _chunks(rows: np.ndarray, fill: object, chunk_rows: int) -> Iterator[np.ndarray]:
    for first in range(0, len(rows), chunk_rows):
        chunk = rows[first : first + chunk_rows]
        if len(chunk) < chunk_rows:
            whole = np.full((chunk_rows, *rows.shape[1:]), fill, rows.dtype)
            whole[: len(chunk)] = chunk
            chunk = whole
        yield chunk


def _plain(chunk: np.ndarray) -> bytes:
    if chunk.dtype.kind == "b":  # in front, how many bits of the last byte are no booleans
        return bytes([-chunk.size % 8]) + np.packbits(chunk).tobytes()
    return chunk.astype(chunk.dtype.newbyteorder("<"), copy=False).tobytes()


def _with_checksum(plain: bytes) -> bytes:
    return plain + int(google_crc32c.value(plain)).to_bytes(4, "little")
