"""Rows -> one Zarr group: gathered in memory, written as whole shards, published after the data.

Chunks have a fixed encoded length (bit-packed booleans, plain numbers, a checksum each), so writing an open shard again
never moves a chunk that a reader may be looking at; docs/design/001-frames-on-disk.md says why that matters.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.column import CHUNK_ROWS, TABLE_ROWS, Column, check_new
from steersman.store.errors import BadVariable
from steersman.store.frames import GROWING, SEGMENT
from steersman.store.variables import Variable
from steersman.system.files import replace_file
from steersman.system.reading import OddFile, read

ARRAYS_EVERY_S = 10.0  # how far the metadata of arrays alone may be behind: as many files again as a publication writes


def make_root(path: Path) -> None:
    """Make the folder of the groups a group itself, so that the whole store opens; one that is there stays.

    It has no consolidated metadata: those of each group are its own, and new groups come while the run goes on.
    """
    path.mkdir(exist_ok=True)
    if not (path / "zarr.json").exists():
        replace_file(path / "zarr.json", json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))


def finish(path: Path) -> None:
    """Give the arrays of a group whose writer is gone the rows that it published, for readers of arrays alone.

    What cannot be read or written stays as it is; see `verify`.
    """
    with contextlib.suppress(OSError, OddFile, ValueError, KeyError, TypeError):
        described = json.loads(read(path / "zarr.json", path.parent))["consolidated_metadata"]["metadata"]
        for name, array in described.items():
            own = json.loads(read(path / name / "zarr.json", path))
            if own != array and {**own, "shape": 0} == {**array, "shape": 0}:
                replace_file(path / name / "zarr.json", json.dumps(array))


class GroupWriter:
    """Appends rows to the variables of one group, along one or more growing dimensions. One writer a group.

    Args:
        path: folder of the group; made when missing.
        variables: meaning of the variables by name; one that is not listed gets plain dimension names and unit "1".
        attributes: the group's attributes; may be changed until a publication.
    Attributes:
        rows: rows appended, by dimension.
        published: rows that readers can see, by dimension.
        missing: variables that may be NaN.
    Raises: FileExistsError: there is a group at `path`.
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
        self.missing = {name for name, meaning in self._variables.items() if meaning.missing}
        self._columns: dict[str, Column] = {}
        self._sizes: dict[str, tuple[int, str]] = {}  # points of a dimension of rows, and a variable that has it
        self._lock = threading.Lock()  # rows and buffers; held for microseconds
        self._publishing = threading.Lock()
        self._arrays_at = -math.inf
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / "zarr.json").exists():
            raise FileExistsError(f"{self.path}: this group exists already, and a group has only one writer")
        self._publish_metadata({}, self.attributes, [])

    def append(self, dimension: str, values: Mapping[str, Any]) -> int:
        """Append one row along `dimension` in memory and return its index; see `extend`."""
        return self.extend(dimension, {name: np.asarray(value)[None] for name, value in values.items()})

    def extend(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> int:
        """Append n rows in memory, each block being (n, ...); return the index of the first.

        A variable that is left out gets its fill value (NaN, 0 or False).

        Raises: BadVariable: a row does not have the shape of the variable's first row, or the blocks differ in n.
            BadVariable: a name or a kind of value that cannot be stored. Nothing is appended then.
        """
        self.check(dimension, blocks)
        n, first, new = len(next(iter(blocks.values()))), self.rows.get(dimension, 0), dict[str, Column]()
        most = TABLE_ROWS if dimension == SEGMENT else CHUNK_ROWS
        for name in [name for name in blocks if name not in self._columns]:
            like, meaning = blocks[name], self._variables.get(name)
            new[name] = Column(self.path / name, dimension, meaning, like, since=first, most=most)
            for dim, size in self._dimensions(name, like):
                self._sizes.setdefault(dim, (size, name))
                self._place_points(dim, size)
        with self._lock:
            self._columns = {**self._columns, **new}  # another, for a publication may go through this one
            for column in self._columns.values():
                if column.dimension == dimension:
                    column.set(first, n, blocks.get(column.name))
            self.rows[dimension] = first + n
        return first

    def names(self, dimension: str) -> set[str]:
        """The variables along a dimension so far."""
        return {column.name for column in self._columns.values() if column.dimension == dimension}

    def check(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> None:
        """Raises: BadVariable: these rows could not be appended, see `extend`."""
        n, sizes = len(next(iter(blocks.values()), ())), dict(self._sizes)
        for name, block in blocks.items():
            column = self._columns.get(name)
            if column is None:
                check_new(name, block, n, self._variables.get(name))
                for dim, size in self._dimensions(name, block):
                    self._check_dimension(name, dim, size, *sizes.setdefault(dim, (size, name)))
            elif column.dimension != dimension:
                raise BadVariable(name, f"a variable of this name exists along {column.dimension}; choose another")
            else:
                column.check(block, n)

    def _dimensions(self, name: str, like: np.ndarray) -> Iterator[tuple[str, int]]:
        """The dimensions of a row that variables= names, and how many points they have."""
        return zip(getattr(self._variables.get(name), "dims", ()), like.shape[1:], strict=False)

    def _check_dimension(self, name: str, dim: str, size: int, known: int, other: str) -> None:
        """Readers find a dimension by its name, in all variables of the group."""
        if not isinstance(dim, str) or not dim or "/" in dim or dim in GROWING:
            raise BadVariable(name, f"no dimension can have the name {dim!r}; choose another in variables=")
        if size != known:
            problem = f"its dimension {dim!r} has {size} points, and that of {other!r} has {known}"
            raise BadVariable(name, f"{problem}; make them equal, or name them apart in variables=")
        if (points := self._points(dim, size)) is not None and points.shape != (size,):
            raise BadVariable(dim, f"points({size}) gives an array of shape {points.shape}; it must be ({size},)")

    def _points(self, dim: str, size: int) -> np.ndarray | None:
        of = self._variables.get(dim)
        return np.asarray(of.points(size)) if of is not None and of.points is not None else None

    def _place_points(self, dim: str, size: int) -> None:
        """Store where the points of a dimension lie, if that is known."""
        if dim not in self._columns and (points := self._points(dim, size)) is not None:
            self.extend(dim, {dim: points})

    def publish(self, *, now: bool = False) -> dict[str, int]:
        """Write what was appended and then let readers see it; returns the published rows by dimension.

        Args:
            now: somebody waits for it; a writer that gathers publications does not put it off.
        """
        self.published = self._write()
        if time.monotonic() - self._arrays_at >= ARRAYS_EVERY_S:
            self._publish_arrays()
        return self.published

    def close(self) -> None:
        """Publish the rest, and the final shapes for readers that do not use consolidated metadata."""
        self.publish(now=True)
        self._publish_arrays()

    def _publish_arrays(self) -> None:
        """Say in each array's own metadata how many rows are published; one after another, so seldom."""
        for column in self._columns.values():
            column.publish(self.published.get(column.dimension, 0))
        self._arrays_at = time.monotonic()

    def _write(self) -> dict[str, int]:
        """Write what was appended, then the metadata; returns the rows written by dimension."""
        with self._publishing:
            with self._lock:
                rows, attributes, columns = dict(self.rows), dict(self.attributes), self._columns.values()
                pending = [(column, column.pending()) for column in columns]
            written = False
            try:
                for column, shards in pending:
                    column.write(shards)
                written = True
            finally:
                with self._lock:
                    for column, shards in pending:
                        column.settle(shards, written=written)
            self._publish_metadata(rows, attributes, columns)
        return rows

    def _publish_metadata(
        self, rows: Mapping[str, int], attributes: Mapping[str, Any], columns: Collection[Column]
    ) -> None:
        """Replace the group's metadata in one step: all shapes change together, after their data."""
        metadata = {column.name: column.metadata(rows.get(column.dimension, 0)) for column in columns}
        consolidated = {"kind": "inline", "must_understand": False, "metadata": metadata}
        described = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        replace_file(self.path / "zarr.json", json.dumps(described | {"consolidated_metadata": consolidated}))
