"""Rows of one variable -> its Zarr array: the newest of them in memory, written as whole shards."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.errors import BadVariable, shape_mismatch
from steersman.store.shard import encode_shard, shard_file
from steersman.store.variables import Variable
from steersman.system.files import replace_file

CHUNK_BYTES = 128 * 2**10  # zarr spends about 0.1 ms on reading a chunk, whatever its size
CHUNK_ROWS = 2**11  # the open chunk of a number is written whole too: 16 KiB
TABLE_ROWS = 2**6  # of a chunk of the table of segments: if it is damaged, each walker of it is lost
SHARD_BYTES = 8 * 2**20  # an open shard is written again at each publication
SHARD_ROWS = 2**15  # few files: 31 per 10^6 rows of a small variable


class Column:
    """One variable that grows along a dimension.

    Args:
        path: folder of the array; its name is the variable's.
        like: (n, ...) rows of it, for dtype and shape.
        since: rows along the dimension that were there before it; shards of these alone are not written.
        most: rows of a chunk, at most.
    """

    def __init__(
        self, path: Path, dimension: str, meaning: Variable | None, like: np.ndarray, *, since: int, most: int
    ) -> None:
        self.name, self.dimension = path.name, dimension
        self._path, self._row, self._dtype = path, like.shape[1:], np.dtype(like.dtype.str).newbyteorder("=")
        self._fill = np.nan if self._dtype.kind == "f" else self._dtype.type()
        self._chunk_rows, self._shard_rows = chunk_and_shard(math.prod(self._row) * self._dtype.itemsize, most)
        self._since = since
        self._metadata = self._described(meaning or Variable(tuple(f"{self.name}_{i}" for i in range(like.ndim - 1))))
        self._shards: dict[int, np.ndarray] = {}  # shard number -> its rows; the last one is open
        self._rows: dict[int, int] = {}  # how many of them are set; the memory behind is not touched, so it costs none
        self._dirty: set[int] = set()
        self._folders = 0  # of so many shards there are: to ask again costs a shared file system as much as to make one
        path.mkdir()
        self.publish(0)

    def metadata(self, rows: int) -> dict[str, Any]:
        """The array's `zarr.json` when it has so many rows."""
        return {**self._metadata, "shape": [rows, *self._row]}

    def publish(self, rows: int) -> None:
        """Say how many rows there are to readers of this array alone; those of the group are given by the group."""
        replace_file(self._path / "zarr.json", json.dumps(self.metadata(rows)))

    def check(self, block: np.ndarray, n: int) -> None:
        """Raises: BadVariable: these are not n rows of this variable, or it cannot hold their values."""
        if block.dtype == self._dtype and block.shape == (n, *self._row):
            return
        expected, got = f"{self._dtype} {self._row}", f"{block.dtype} {block.shape[1:]}"
        if block.shape != (n, *self._row) or not np.can_cast(block.dtype, self._dtype, "same_kind"):
            raise shape_mismatch(self.name, expected, got)
        if not (held := _held(block, self._dtype)).all():
            raise shape_mismatch(self.name, expected, f"{got} with {block[~held][0]}, which it cannot hold,")

    def set(self, first: int, n: int, block: np.ndarray | None) -> None:
        """Take n rows from `first` on, in memory; None for fill values."""
        done = 0
        while done < n:
            number, at = divmod(first + done, self._shard_rows)
            rows = min(n - done, self._shard_rows - at)
            shard = self._shard(number)
            if self._rows[number] < at:  # rows from before this variable came
                shard[self._rows[number] : at] = self._fill
            shard[at : at + rows] = self._fill if block is None else block[done : done + rows]
            self._rows[number] = at + rows
            done += rows

    def pending(self) -> dict[int, np.ndarray]:
        """Take the shards to write; `settle` says what came of it."""
        shards = {number: self._shards[number][: self._rows[number]] for number in sorted(self._dirty)}
        self._dirty.clear()
        return shards

    def settle(self, shards: Mapping[int, np.ndarray], *, written: bool) -> None:
        """Full shards leave memory once they are written; those that could not be written are written the next time."""
        if not written:
            self._dirty.update(shards)
        newest = max(self._shards, default=0)
        for number in shards.keys() - self._dirty - {newest}:
            del self._shards[number], self._rows[number]

    def write(self, shards: Mapping[int, np.ndarray]) -> None:
        """Write shards whole; the rows given here change no more, while others come behind them."""
        for number, rows in shards.items():
            file = shard_file(self._path, number, rows[0])
            if number >= self._folders:
                (self._path / "c").mkdir(exist_ok=True)  # not the group: that is gone if it was merged with others
                file.parent.mkdir(parents=True, exist_ok=True)
                self._folders = number + 1
            replace_file(file, encode_shard(rows, self._fill, self._chunk_rows, self._shard_rows))

    def _shard(self, number: int) -> np.ndarray:
        self._dirty.add(number)
        if number not in self._shards:
            self._shards[number], self._rows[number] = np.empty((self._shard_rows, *self._row), self._dtype), 0
        return self._shards[number]

    def _described(self, meaning: Variable) -> dict[str, Any]:
        from steersman.store.metadata import described

        layout, dims = (self._chunk_rows, self._shard_rows), (self.dimension, *meaning.dims)
        named = replace(meaning, long_name=meaning.long_name or self.name)
        return described(self._row, self._dtype, self._fill, layout, dims, named, self._since)


def _held(block: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Which values a dtype of the same kind can hold: fractions may lose digits, but none becomes infinite."""
    with np.errstate(all="ignore"):
        cast = block.astype(dtype)
        if block.dtype.kind in "fc":
            return np.asarray(np.isfinite(cast) | ~np.isfinite(block))
        back = cast.astype(block.dtype)
    nothing = np.isnat(block) & np.isnat(cast) if block.dtype.kind in "mM" else np.False_
    same_sign = (cast < 0) == (block < 0) if block.dtype.kind in "iu" else np.True_
    return np.asarray(nothing | (back == block) & same_sign)


def check_new(name: str, block: np.ndarray, n: int, meaning: Variable | None) -> None:
    """Raises: BadVariable: n rows of a new variable cannot be of this name, dtype or shape."""
    if "/" in name or name in ("", ".", "..", "zarr.json"):
        raise BadVariable(name, "this name cannot be used for a folder; use letters, digits, - and _")
    if block.dtype.kind not in "biufcmM" or block.dtype.char in "gG":  # long double, of other bits on each machine
        raise BadVariable(name, f"its dtype is {block.dtype}; only numbers, booleans and arrays of them can be stored")
    if 0 in block.shape[1:]:
        raise BadVariable(name, f"its shape is {block.shape[1:]}, which holds nothing")
    if meaning and len(meaning.dims) != block.ndim - 1:
        problem = f"its shape is {block.shape[1:]}, but variables= names its dimensions {meaning.dims!r}"
        raise BadVariable(name, f"{problem}; name each of its dimensions, and no other, in a tuple such as ('site',)")
    if len(block) != n:
        raise shape_mismatch(name, f"{n} rows", f"{len(block)} rows")


def chunk_and_shard(row_bytes: int, most: int = CHUNK_ROWS) -> tuple[int, int]:
    """Rows of a chunk, `most` at most, and of a shard, a whole number of chunks, within the sizes above."""
    chunk = max(1, min(CHUNK_ROWS, most, CHUNK_BYTES // max(1, row_bytes)))
    return chunk, max(1, min(SHARD_ROWS, SHARD_BYTES // max(1, row_bytes)) // chunk) * chunk
