"""Frames of a run -> xarray: a tree of all walkers, and the rows of some of them as one Dataset."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from steersman.data.errors import DamagedPart
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, DamagedShard, Frames, MissingVariable, Span, Stored
from steersman.store.errors import shape_mismatch
from steersman.store.names import walker_name

DENSE = 16  # rows that are read together for one that is wanted: a read of one row alone costs as much
COORDINATES = ("time", "segment")  # of a frame, where a group of Steersman 0.1 does not say so itself


def tree(directory: RunDirectory) -> xarray.DataTree:
    """Every published frame, a node for each walker; nothing is read yet."""
    groups = {}
    for walker in sorted(directory.frames.walkers(), key=lambda name: (len(name), name)):
        try:
            groups[walker] = opened(directory.frames, walker)
        except Exception as error:  # whatever a damaged group makes its reader raise
            warn_of_damage(f"frames.zarr/{walker}", error)
    return xarray.DataTree.from_dict(groups, name=directory.path.name)


def opened(frames: Frames, walker: str) -> xarray.Dataset:
    """One walker's group, lazy, with `time` and `segment` of the frames as coordinates.

    Rows are read as a training reads them, which is several times as fast as by zarr's codecs.
    """
    attributes = {key: value for key, value in frames.attributes(walker).items() if key != "coordinates"}
    data = xarray.Dataset({name: _lazy(array) for name, array in frames.stored(walker).items()}, attrs=attributes)
    return data.set_coords([name for name in COORDINATES if name in data])


class _Rows(BackendArray):
    """A stored array as xarray asks for parts of it."""

    def __init__(self, stored: Stored) -> None:
        self.stored, self.shape, self.dtype = stored, (stored.rows, *stored.like.shape), stored.like.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[int | slice, ...]) -> np.ndarray:
        first, *others = key
        if not isinstance(first, slice):
            return np.asarray(self.stored.row(first)[tuple(others)])
        rows = range(*first.indices(self.stored.rows))
        if not rows:
            return self.stored.read(0, 0)[:, *others]
        block = self.stored.read(min(rows), max(rows) + 1)
        return block[:: rows.step, *others] if rows.step > 0 else block[::-1][:: -rows.step, *others]


def _lazy(stored: Stored) -> xarray.Variable:
    return xarray.Variable(stored.dims, indexing.LazilyIndexedArray(_Rows(stored)), dict(stored.attributes))


class _Chosen(BackendArray):
    """One variable of chosen rows of several walkers, as xarray asks for parts of it."""

    def __init__(self, frames: Frames, name: str, walker: np.ndarray, row: np.ndarray) -> None:
        self._frames, self._name, self._walker, self._row = frames, name, walker, row
        each = {
            number: _array(frames, name, number, row[walker == number]).like for number in np.unique(walker).tolist()
        }
        first = each[int(walker[0])]
        for number, like in each.items():
            if like.shape != first.shape:
                raise shape_mismatch(name, f"shape {first.shape}", f"shape {like.shape} (of {walker_name(number)})")
        self.shape, self.dtype = (len(row), *first.shape), np.result_type(*(like.dtype for like in each.values()))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._part)

    def _part(self, key: tuple[Any, ...]) -> np.ndarray:
        first, *others = key
        at = np.atleast_1d(np.arange(len(self._row))[first])
        if not len(at):
            return np.empty((0, *self.shape[1:]), self.dtype)[:, *others]
        read = rows(self._frames, self._name, self._walker[at], self._row[at]).astype(self.dtype, copy=False)
        one = isinstance(first, (int, np.integer))
        return np.asarray(read[0][tuple(others)] if one else read[:, *others])


def dataset(
    frames: Frames, walker: np.ndarray, row: np.ndarray, names: Sequence[str] | None = None, *, lazy: bool = False
) -> xarray.Dataset:
    """Chosen rows, one after another, with units and names as they are stored.

    Args:
        walker, row: (n,) int, of each frame.
        names: variables to read; None reads all.
        lazy: read what is looked at, when it is; else all is in memory.
    Raises: MissingVariable: there is none of this name. StoreError: there is no such row.
    """
    first = walker_name(walker[0])
    like = opened(frames, first)
    stored = [name for name in frames.variables(first) if name not in COORDINATES]
    wanted = stored if names is None else names
    if unknown := [name for name in wanted if name not in stored]:
        raise MissingVariable(unknown[0], ", ".join(stored))
    read: Any = (
        (lambda name: indexing.LazilyIndexedArray(_Chosen(frames, name, walker, row)))
        if lazy
        else (lambda name: rows(frames, name, walker, row))
    )
    variables = {name: (like[name].dims, read(name), like[name].attrs) for name in wanted}
    points = {name: like[name] for name in like.coords if FRAME not in like[name].dims}
    return xarray.Dataset(variables, {**points, "walker": (FRAME, walker), "row": (FRAME, row)})


def rows(frames: Frames, name: str, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(n, ...) of one variable, one read for each walker; single rows where few are wanted of many.

    Raises: MissingVariable. StoreError. BadVariable: walkers have it in other shapes.
    """
    values: np.ndarray | None = None
    for number in np.unique(walker):
        at = np.flatnonzero(walker == number)
        read = _rows_of(_array(frames, name, number, row[at]), row[at])
        values = np.empty((len(row), *read.shape[1:]), read.dtype) if values is None else values
        if read.shape[1:] != values.shape[1:]:
            raise shape_mismatch(
                name, f"shape {values.shape[1:]}", f"shape {read.shape[1:]} (of {walker_name(number)})"
            )
        values = values.astype(np.result_type(values, read), copy=False)  # each walker's first frame decides its dtype
        values[at] = read
    assert values is not None
    return values


def _array(frames: Frames, name: str, walker: int, row: np.ndarray) -> Stored:
    """One variable of a walker that has these rows. Raises: MissingVariable. StoreError: a row below 0 is none."""
    return frames.array(name, Span(walker_name(walker), int(row.min()), int(row.max()) + 1))


def _rows_of(array: Stored, row: np.ndarray) -> np.ndarray:
    first, end = int(row.min()), int(row.max()) + 1
    if end - first <= DENSE * len(row):
        with contextlib.suppress(DamagedShard):  # maybe of a row between those that are wanted
            return np.asarray(array.read(first, end)[row - first])
    return np.stack([array.row(int(each)) for each in row])


def warn_of_damage(part: str, error: Exception) -> None:
    """Say that a part is left out."""
    text = f"{part} cannot be read and is left out: {type(error).__name__}: {error!s:.200}; see `steersman verify`"
    warnings.warn(DamagedPart(text), stacklevel=3)


def units(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("units", "1"))
