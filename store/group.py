"""Rows -> one Zarr group: gathered in memory, written as whole shards, published after the data.

Chunks have a fixed encoded length (bit-packed booleans, plain numbers, a checksum each), so writing an open shard again
never moves a chunk that a reader may be looking at; docs/design/001-frames-on-disk.md tells why that matters.
"""

from __future__ import annotations

import json
import math
import os
import threading
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import default_buffer_prototype

from steersman.store.errors import ShapeMismatch
from steersman.store.variables import Variable

CHUNK_BYTES = 128 * 2**10  # zarr spends about 0.1 ms on a chunk, whatever its size
SHARD_BYTES = 8 * 2**20  # an open shard is written again at each publication: 30 ms at this size
SHARD_ROWS = 2**15  # few files: 31 per 10^6 rows of a small variable

with warnings.catch_warnings():  # packbits is not yet in the Zarr 3 text; every zarr-python that reads this has it
    warnings.simplefilter("ignore")
    from zarr.codecs.numcodecs import PackBits

    _PACK_BITS = PackBits()


class GroupWriter:
    """Appends rows to the variables of one group, along one or more growing dimensions. One writer a group.

    Args:
        path: folder of the group; made when missing.
        variables: meaning of the variables by name; one that is not listed gets plain dimension names and unit "1".
        attributes: the group's attributes; may be changed until a publication.
    Attributes:
        rows: rows appended, by dimension.
        published: rows that readers can see, by dimension.
    """

    def __init__(
        self,
        path: Path,
        *,
        variables: Mapping[str, Variable] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.attributes = dict(attributes or {})
        self.rows: dict[str, int] = {}
        self.published: dict[str, int] = {}
        self._variables = dict(variables or {})
        self._columns: dict[str, _Column] = {}
        self._lock = threading.Lock()  # rows and buffers; held for microseconds
        self._publishing = threading.Lock()
        self._group = zarr.open_group(self.path, mode="w-")

    def append(self, dimension: str, values: Mapping[str, Any]) -> int:
        """Append one row along `dimension` in memory and return its index; see `extend`."""
        return self.extend(dimension, {name: np.asarray(value)[None] for name, value in values.items()})

    def extend(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> int:
        """Append n rows in memory, each block being (n, ...); return the index of the first.

        A variable that is left out gets its fill value (NaN, 0 or False).

        Raises: ShapeMismatch: a row does not have the shape of the variable's first row, or the blocks differ in n.
        """
        n = len(next(iter(blocks.values())))
        for name in blocks.keys() - self._columns.keys():
            self._columns[name] = self._new_column(name, dimension, blocks[name])
        columns = [column for column in self._columns.values() if column.dimension == dimension]
        for column in columns:
            column.check(blocks.get(column.name), n)
        with self._lock:
            first = self.rows.get(dimension, 0)
            for column in columns:
                column.set(first, n, blocks.get(column.name))
            self.rows[dimension] = first + n
        return first

    def publish(self, *, now: bool = False) -> dict[str, int]:
        """Write what was appended and then let readers see it; returns the published rows by dimension.

        Args:
            now: somebody waits for it; a writer that gathers publications does not put it off.
        """
        self.published = self._write()
        return self.published

    def close(self) -> None:
        """Publish the rest, and the final shapes for readers that do not use consolidated metadata."""
        rows = self.publish(now=True)
        for column in self._columns.values():
            column.array.resize((rows.get(column.dimension, 0), *column.array.shape[1:]))

    def _write(self) -> dict[str, int]:
        """Write what was appended, then the metadata; returns the rows written by dimension."""
        with self._publishing:
            with self._lock:
                rows, attributes = dict(self.rows), dict(self.attributes)
                pending = [(column, column.pending()) for column in self._columns.values()]
            for column, shards in pending:
                column.write(shards)
            self._publish_metadata(rows, attributes)
        return rows

    def _new_column(self, name: str, dimension: str, block: np.ndarray) -> _Column:
        dtype = block.dtype
        meaning = self._variables.get(name) or Variable(tuple(f"{name}_{i}" for i in range(block.ndim - 1)))
        row = block.shape[1:]
        chunk, shard = chunk_and_shard(math.prod(row) * dtype.itemsize)
        array = self._group.create_array(
            name,
            shape=(0, *row),
            chunks=(chunk, *row),
            shards=(shard, *row),
            dtype=dtype,
            filters=[_PACK_BITS] if dtype.kind == "b" else None,
            compressors=[Crc32cCodec()],
            fill_value=np.nan if dtype.kind == "f" else 0,
            dimension_names=(dimension, *meaning.dims),
            attributes={"units": meaning.units, "long_name": meaning.long_name or name},
        )
        return _Column(name, dimension, array, shard)

    def _publish_metadata(self, rows: Mapping[str, int], attributes: Mapping[str, Any]) -> None:
        """Replace the group's metadata in one step: all shapes change together, after their data."""
        metadata = {}
        for name, column in self._columns.items():
            described = column.description()
            described["shape"][0] = rows.get(column.dimension, 0)
            metadata[name] = described
        text = json.dumps(
            {
                "zarr_format": 3,
                "node_type": "group",
                "attributes": attributes,
                "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
            }
        )
        replace_file(self.path / "zarr.json", text)


class _Column:
    """One variable: its Zarr array, and the rows of its open shard in memory."""

    def __init__(self, name: str, dimension: str, array: zarr.Array[Any], shard_rows: int) -> None:
        self.name, self.dimension, self.array, self.shard_rows = name, dimension, array, shard_rows
        self._row, self._dtype, self._fill = (
            array.shape[1:],
            array.dtype,
            array.fill_value,
        )  # asking the array costs more than storing a row
        text = array.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes()
        self._described = json.loads(text)  # its file may have been moved already, see store/mover.py
        self._shards: dict[int, np.ndarray] = {}  # shard number -> its rows; the last one is open
        self._rows: dict[int, int] = {}  # how many of them are set; the memory behind is not touched, so it costs none
        self._dirty: set[int] = set()

    def description(self) -> dict[str, Any]:
        return {**self._described, "shape": list(self._described["shape"])}

    def check(self, block: np.ndarray | None, n: int) -> None:
        if block is None or (block.dtype == self._dtype and block.shape == (n, *self._row)):
            return
        if block.shape != (n, *self._row) or not np.can_cast(block.dtype, self._dtype, "same_kind"):
            raise ShapeMismatch(self.name, f"{self._dtype} {self._row}", f"{block.dtype} {block.shape[1:]}")

    def set(self, first: int, n: int, block: np.ndarray | None) -> None:
        done = 0
        while done < n:
            number, at = divmod(first + done, self.shard_rows)
            rows = min(n - done, self.shard_rows - at)
            shard = self._shard(number)
            if self._rows[number] < at:  # rows from before this variable came
                shard[self._rows[number] : at] = self._fill
            shard[at : at + rows] = self._fill if block is None else block[done : done + rows]
            self._rows[number] = at + rows
            done += rows

    def _shard(self, number: int) -> np.ndarray:
        self._dirty.add(number)
        if number not in self._shards:
            self._shards[number], self._rows[number] = np.empty((self.shard_rows, *self._row), self._dtype), 0
        return self._shards[number]

    def pending(self) -> dict[int, np.ndarray]:
        """Take the shards to write; full ones leave memory with this call."""
        shards = {number: self._shards[number][: self._rows[number]] for number in sorted(self._dirty)}
        self._dirty.clear()
        for number in sorted(self._shards)[:-1]:
            del self._shards[number], self._rows[number]
        return shards

    def write(self, shards: Mapping[int, np.ndarray]) -> None:
        for number, rows in shards.items():
            first = number * self.shard_rows
            # The array on disk keeps its old shape until close(): nobody may see rows whose data is not there yet.
            shape = (first + self.shard_rows, *self.array.shape[1:])
            metadata: Any = self.array.metadata.update_shape(shape)
            array = zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=self.array.store_path))
            # A copy, too, for the simulation goes on in the rows behind, between the checksum and the write of a chunk.
            whole = np.full((self.shard_rows, *self._row), self._fill, self._dtype)
            whole[: len(rows)] = rows
            array[first : first + self.shard_rows] = whole


def chunk_and_shard(row_bytes: int) -> tuple[int, int]:
    """Rows of a chunk and of a shard, a whole number of chunks, within the sizes above."""
    chunk = max(1, min(SHARD_ROWS, CHUNK_BYTES // max(1, row_bytes)))
    return chunk, max(1, min(SHARD_ROWS, SHARD_BYTES // max(1, row_bytes)) // chunk) * chunk


def replace_file(path: Path, text: str, *, sync: bool = False) -> None:
    """Write a small file whole or not at all; `sync` waits until it is on the disk."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
