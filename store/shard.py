"""Rows <-> the bytes of one shard, as Zarr's sharding codec lays them out: its chunks, then where each of them is.

zarr-python reads a shard before it writes it again, and hands each chunk from thread to thread: a publication of five
small variables took 8 ms of processor time, and takes 0.5 so. It reads these, and so does every other Zarr. A single
row, which a walker waits for between two segments, is read here, too; all else is read by zarr.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np

from steersman.store.errors import DamagedShard

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


def read_row(array: Path, row: int, like: np.ndarray, chunk_rows: int, shard_rows: int) -> np.ndarray:
    """Read one row of an array on disk.

    Args:
        like: a row as it is where none was written: shape, dtype, fill value.
        chunk_rows, shard_rows: as they were written.
    Raises: FileNotFoundError: its shard is not there. DamagedShard: a checksum is wrong.
    """
    number, in_shard = divmod(row, shard_rows)
    chunk, in_chunk = divmod(in_shard, chunk_rows)
    file = shard_file(array, number, like)
    with file.open("rb", buffering=0) as opened:
        opened.seek(-(16 * (shard_rows // chunk_rows) + 4), os.SEEK_END)
        index = np.frombuffer(_without_checksum(opened.read(), file), "<u8").reshape(-1, 2)
        offset, length = map(int, index[chunk])
        if offset == NOT_THERE:
            return like
        opened.seek(offset)
        plain = _without_checksum(opened.read(length), file)
    if like.dtype.kind == "b":
        rows = np.unpackbits(np.frombuffer(plain, np.uint8, offset=1), count=chunk_rows * like.size)
    else:
        rows = np.frombuffer(plain, like.dtype.newbyteorder("<"))
    found: np.ndarray = rows.reshape(chunk_rows, *like.shape)[in_chunk].astype(like.dtype)
    return found


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


def _without_checksum(read: bytes, file: Path) -> bytes:
    plain = read[:-4]
    if _with_checksum(plain) != read:
        raise DamagedShard(str(file))
    return plain
