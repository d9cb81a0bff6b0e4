"""Frames on disk -> arrays: what the walkers of a run have published, read while they go on."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.storage import LocalStore

from steersman.store.errors import EmptyWindow, MissingFrame, MissingVariable
from steersman.store.shard import read_row

FRAME, SEGMENT = "frame", "segment"

# Columns of the segments table, one int64 row for every ended segment of a walker; -1 where there is none.
SEGMENT_FIELDS = ("number", "start", "parent_walker", "parent_row", "seed", "model", "first_row", "end_row", "ended")
ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True, order=True)
class Span:
    """Rows [first, end) of one walker."""

    walker: str
    first: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.first


class _LocalStore(LocalStore):
    """Reads in the thread that asks: on a busy node a hop to another and back takes longer than to read a chunk."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)


class Frames:
    """The frames of a run, one group per walker. Every read sees what is published at that moment.

    Args:
        path: the run's `frames.zarr`.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._opened: dict[tuple[str, str], tuple[int, dict[str, zarr.Array[Any]]]] = {}

    def __contains__(self, walker: str) -> bool:
        """Whether there is anything of this walker; of thousands, `walkers` would look at each."""
        return (self.path / walker / "zarr.json").exists()

    def walkers(self) -> list[str]:
        return sorted(entry.parent.name for entry in self.path.glob("*/zarr.json"))

    def count(self, walker: str) -> int:
        """Published frames of a walker; 0 before its first publication."""
        return self._open(walker, FRAME)[0]

    def rows(self, walker: str, dimension: str) -> int:
        """Published rows along a dimension."""
        return self._open(walker, dimension)[0]

    def spans(self) -> list[Span]:
        return [Span(walker, 0, rows) for walker in self.walkers() if (rows := self.count(walker))]

    def attributes(self, walker: str) -> dict[str, Any]:
        """What the walker said of its group at its last publication."""
        return dict(self._group(walker).attrs)

    def variables(self, walker: str, dimension: str = FRAME) -> list[str]:
        return list(_arrays(self._group(walker), dimension))

    def read(self, name: str, span: Span, *, dimension: str = FRAME) -> np.ndarray:
        """Read (rows, ...) of one variable.

        Raises: MissingFrame: the span reaches beyond what is published. MissingVariable: there is none of this name.
        """
        rows, arrays = self._known(span.walker, dimension, span.end)
        if name not in arrays:
            raise MissingVariable(name, ", ".join(arrays))
        if not 0 <= span.first <= span.end <= rows:
            raise MissingFrame(span.walker, span.end - 1, rows)
        return np.asarray(arrays[name][span.first : span.end])

    def row(self, walker: str, row: int, *, dimension: str = FRAME) -> Row:
        """One row along `dimension` by variable; a variable is read when it is asked for.

        Raises: MissingFrame: that row is not published.
        """
        group = self.path / walker
        arrays = _described(group, dimension)
        rows = min((each["shape"][0] for each in arrays.values()), default=0)
        if not 0 <= row < rows:
            raise MissingFrame(walker, row, rows)
        return Row(group, arrays, row)

    def read_table(self, walker: str) -> np.ndarray:
        """The segments that a walker has ended: (segments, len(SEGMENT_FIELDS)) int64."""
        return _table(self._group(walker), 0)

    def publication(self, walker: str, segments: int) -> tuple[int, np.ndarray, dict[str, Any]]:
        """Frames, the table of segments behind its first so many rows, and attributes, all of one publication."""
        group = self._group(walker)
        return _rows(_arrays(group, FRAME)), _table(group, segments), dict(group.attrs)

    def _known(self, walker: str, dimension: str, end: int) -> tuple[int, dict[str, zarr.Array[Any]]]:
        """Rows and arrays of a walker; an older look serves when it reaches `end`, for published rows do not change."""
        known = self._opened.get((walker, dimension))
        if known is None or end > known[0]:
            known = self._opened[walker, dimension] = self._open(walker, dimension)
        return known

    def _open(self, walker: str, dimension: str) -> tuple[int, dict[str, zarr.Array[Any]]]:
        arrays = _arrays(self._group(walker), dimension)
        return _rows(arrays), arrays

    def _group(self, walker: str) -> zarr.Group:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            return zarr.open_group(_LocalStore(self.path / walker, read_only=True), mode="r", use_consolidated=None)


class Row(Mapping[str, np.ndarray]):
    """The variables of one published frame, or of one ended segment.

    A walker waits for it between two segments, so zarr does not open the group: that costs hops between threads.

    Args:
        path: of the group.
        arrays: its arrays' metadata, as a publication wrote them.
    """

    def __init__(self, path: Path, arrays: Mapping[str, dict[str, Any]], row: int) -> None:
        self._path, self._arrays, self._row = path, arrays, row

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise MissingVariable(name, ", ".join(self._arrays))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            array = ArrayV3Metadata.from_dict(dict(self._arrays[name]))
        like = np.full(array.shape[1:], array.fill_value, array.dtype.to_native_dtype())
        assert array.shards is not None
        return read_row(self._path / name, self._row, like, array.chunks[0], array.shards[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Window(Mapping[str, np.ndarray]):
    """Chosen frames as named arrays: a variable is read from disk once, when it is first asked for.

    Attributes:
        spans: what it covers; row i of every array belongs to the i-th row of these spans, one after another.
    """

    def __init__(self, frames: Frames, spans: Sequence[Span]) -> None:
        if not any(span.rows for span in spans):
            raise EmptyWindow(str(frames.path))
        self.frames, self.spans = frames, [span for span in spans if span.rows]
        self._read = functools.cache(self._read_variable)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.frames.variables(self.spans[0].walker))

    def __len__(self) -> int:
        return len(self.frames.variables(self.spans[0].walker))

    @property
    def rows(self) -> int:
        return sum(span.rows for span in self.spans)

    def _read_variable(self, name: str) -> np.ndarray:
        """One read for each walker, however many spans it has here: segments are short."""
        first: dict[str, int] = {}
        end: dict[str, int] = {}
        for span in self.spans:
            first[span.walker] = min(span.first, first.get(span.walker, span.first))
            end[span.walker] = max(span.end, end.get(span.walker, span.end))
        rows = {walker: self.frames.read(name, Span(walker, first[walker], end[walker])) for walker in first}
        at = first.__getitem__
        return np.concatenate([rows[s.walker][s.first - at(s.walker) : s.end - at(s.walker)] for s in self.spans])


def _described(group: Path, dimension: str) -> dict[str, dict[str, Any]]:
    """Metadata of the arrays along a dimension, by name."""
    told = json.loads((group / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"]
    return {name: array for name, array in told.items() if array["dimension_names"][0] == dimension}


def _dimension(array: zarr.Array[Any]) -> str | None:
    names = getattr(array.metadata, "dimension_names", None)
    return names[0] if names else None


def _arrays(group: zarr.Group, dimension: str) -> dict[str, zarr.Array[Any]]:
    with warnings.catch_warnings():  # before the first publication zarr looks at every file, half-written ones too
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        return {name: array for name, array in group.arrays() if _dimension(array) == dimension}


def _rows(arrays: Mapping[str, zarr.Array[Any]]) -> int:
    return min((int(array.shape[0]) for array in arrays.values()), default=0)


def _table(group: zarr.Group, first: int) -> np.ndarray:
    if "segments" not in group:
        return np.empty((0, len(SEGMENT_FIELDS)), np.int64)
    array = group["segments"]
    assert isinstance(array, zarr.Array)
    return np.asarray(array[first:])
