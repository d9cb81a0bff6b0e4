"""Frames on disk -> arrays: what the walkers of a run have published, read while they go on."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.errors import DamagedGroup, MissingVariable, missing_frame
from steersman.store.shard import read_inside, read_rows
from steersman.store.states import RESTART, RESTART_STATES, rows_of, unpacked
from steersman.system.reading import OddFile

# The dimensions of a group that grow. That of the ended segments is not called `segment`: this is a variable of each
# frame, the segment that made it, by which xarray groups.
FRAME, SEGMENT = "frame", "ended_segment"
GROWING = (FRAME, SEGMENT, RESTART)
WALKER, WALKERS = "walker", "walkers"  # of a merged group: a variable, whose frame it is; an attribute, its table
MERGED, OF_WALKER = re.compile(r"m(\d+)"), re.compile(r"w(\d+)")
NEITHER = re.compile(r"m\d+|[wm]\d+\D.*")  # a merged group, one that is being made, or somebody's copy: w3.bak

Publication = tuple[dict[str, Any], "dict[str, Stored]"]  # attributes and arrays, of one moment

# Columns of the segments table, one int64 row for every ended segment of a walker; -1 where there is none. `state_row`
# and `state_bytes` say where its restart state lies, 0 bytes of one that gave none. `exact` is 1 where it was to go on
# exactly from another, `conditions` is the same number under the same bias and parameters, and `repeats` is 0 where it
# was told what need not be so again, bit for bit. Runs of before have not got the last, the last three, or five, but a
# variable along the ended segments for each of a state.
SEGMENT_FIELDS = (
    "number", "start", "parent_walker", "parent_row", "seed", "model", "first_row", "end_row", "ended", "state_row",
    "state_bytes", "exact", "conditions", "repeats",
)  # fmt: skip
STATE = SEGMENT_FIELDS.index("state_row")
ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True, order=True)
class Span:
    """Rows [first, end) of one walker.

    Args:
        weight: of the member that made them; 1.0 where members have none.
    """

    walker: str
    first: int
    end: int
    weight: float = field(default=1.0, compare=False)

    @property
    def rows(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Stored:
    """An array of a walker, as a publication of its group describes it.

    Args:
        of: where it is found again when its walker was merged with others meanwhile, and the walker.
        path: its folder.
        rows: that are published.
        like: a row as it is where none was written: shape, dtype, fill value.
        layout: rows of a chunk and of a shard.
        dims: names of its dimensions.
        attributes: units and long_name.
        since: the row at which the variable came; there may be no shards of rows before.
        first: the walker's first row, in a merged group.
    """

    of: tuple[Frames, str]
    path: Path
    rows: int
    like: np.ndarray
    layout: tuple[int, int]
    dims: tuple[str, ...]
    attributes: Mapping[str, Any]
    since: int = 0
    first: int = 0

    def read(self, first: int, end: int) -> np.ndarray:
        """(end - first, ...). Raises: StoreError: they are not published. DamagedShard. FileNotFoundError: there is
        no such group any more.
        """
        # Behind the last row a shard has fill values, and before the first one lie the rows of another walker.
        if not 0 <= first <= end <= self.rows:
            raise missing_frame(self.of[1], first if first < 0 else end - 1, self.rows)
        try:
            return self._rows(first, end)
        except FileNotFoundError:
            frames, walker = self.of
            return frames.moved(walker)[self.path.name]._rows(first, end)

    def row(self, row: int) -> np.ndarray:
        """(...) of one row. Raises: as `read`."""
        return self.read(row, row + 1)[0]  # type: ignore[no-any-return]

    def _rows(self, first: int, end: int) -> np.ndarray:
        return read_rows(self.path, self.first + first, self.first + end, self.like, self.layout, since=self.since)


class Frames:
    """The frames of a run. Every read sees what is published at that moment.

    A walker writes a group of its own, `w3`. Those of walkers that have ended are merged into `m0`, `m1`, ..., which
    never change: see merge.py.

    Args:
        path: the run's `frames.zarr`.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        # The merged groups that the last look found, and walker -> the newest of them that has it; replaced together.
        self._known: tuple[dict[str, Publication], dict[str, str]] = {}, {}

    def __reduce__(self) -> tuple[type[Frames], tuple[Path]]:
        """In another process it looks for itself."""
        return Frames, (self.path,)

    def own(self, group: str) -> bool:
        """Whether there is a group of this name: of a walker, one of its own. Of thousands, `walkers` looks at each."""
        return (self.path / group / "zarr.json").exists()

    def walkers(self) -> list[str]:
        own = (entry.parent.name for entry in self.path.glob("*/zarr.json"))
        return sorted({name for name in own if not NEITHER.fullmatch(name)}.union(*self.merged().values()))

    def merged(self) -> dict[str, list[str]]:
        """The merged groups, each with its walkers; without those that were merged again."""
        self._look()
        walkers: dict[str, list[str]] = {}
        for walker, group in self._known[1].items():
            walkers.setdefault(group, []).append(walker)
        return walkers

    def group(self, walker: str) -> str:
        """The group that a walker's frames lie in. Raises: FileNotFoundError: it has published nothing."""
        self.published(walker)
        return self._known[1].get(walker, walker)

    def count(self, walker: str) -> int:
        """Published frames of a walker; 0 before its first publication."""
        return self.rows(walker, FRAME)

    def rows(self, walker: str, dimension: str) -> int:
        """Published rows along a dimension."""
        return _rows(self.stored(walker, dimension))

    def spans(self) -> list[Span]:
        return [Span(walker, 0, rows) for walker in self.walkers() if (rows := self.count(walker))]

    def attributes(self, walker: str) -> dict[str, Any]:
        """What the walker said of its group at its last publication."""
        return self.published(walker)[0]

    def variables(self, walker: str, dimension: str = FRAME) -> list[str]:
        return list(self.stored(walker, dimension))

    def stored(self, walker: str, dimension: str | None = None) -> dict[str, Stored]:
        """The arrays of a walker as they are published now, by name; those along one dimension, or all."""
        return _along(self.published(walker)[1], dimension)

    def read(self, name: str, span: Span, *, dimension: str = FRAME) -> np.ndarray:
        """Read (rows, ...) of one variable.

        Raises: StoreError: the span reaches beyond what is published. MissingVariable: there is none of this name.
        """
        return self.array(name, span, dimension=dimension).read(span.first, span.end)

    def array(self, name: str, span: Span, *, dimension: str = FRAME) -> Stored:
        """One variable, to read rows of a span from. Raises: StoreError, MissingVariable: see `read`."""
        arrays = self.stored(span.walker, dimension)
        rows = _rows(arrays)
        if name not in arrays:
            raise MissingVariable(name, ", ".join(arrays))
        if not 0 <= span.first <= span.end <= rows:
            raise missing_frame(span.walker, span.first if span.first < 0 else span.end - 1, rows)
        return arrays[name]

    def row(self, walker: str, row: int, *, dimension: str = FRAME) -> FrameRow:
        """One row along `dimension` by variable; a variable is read when it is asked for.

        Raises: StoreError: that row is not published.
        """
        arrays = self.stored(walker, dimension)
        if not 0 <= row < (rows := _rows(arrays)):
            raise missing_frame(walker, row, rows)
        return FrameRow(arrays, row)

    def read_table(self, walker: str) -> np.ndarray:
        """The segments that a walker has ended: (segments, len(SEGMENT_FIELDS)) int64."""
        return self.publication(walker, 0)[1]

    def publication(self, walker: str, segments: int) -> tuple[int, np.ndarray, dict[str, Any]]:
        """Frames, the table of segments behind its first so many rows, and attributes, all of one publication."""
        attributes, arrays = self.published(walker)
        table = arrays.get("segments")
        empty = np.empty((0, len(SEGMENT_FIELDS)), np.int64)
        read = empty if table is None else table.read(min(segments, table.rows), table.rows)
        missing = len(SEGMENT_FIELDS) - read.shape[1]
        return _rows(_along(arrays, FRAME)), np.pad(read, ((0, 0), (0, missing)), constant_values=-1), attributes

    def state(self, walker: str, segment: int) -> dict[str, np.ndarray | bytes]:
        """What an ended segment gave to `out.state`, as it gave it; empty where it gave nothing.

        Raises: StoreError: this segment is not published.
        """
        arrays = self.stored(walker)
        along = _along(arrays, SEGMENT)
        if not 0 <= segment < (rows := _rows(along)):
            raise missing_frame(walker, segment, rows)
        row = along.pop("segments").row(segment)
        if len(row) <= STATE:
            return {name: array.row(segment) for name, array in along.items()}
        first, size = map(int, row[STATE : STATE + 2])
        return unpacked(arrays[RESTART_STATES].read(first, first + rows_of(size)).tobytes()[:size]) if size else {}

    def published(self, walker: str) -> Publication:
        """Attributes and arrays of a walker, all of its last publication.

        A walker that writes has its own group, for which nothing else is looked at. One that was found in a merged
        group is not looked for again.

        Raises: FileNotFoundError: it has published nothing.
        """
        for _ in range(2):  # a merged group may be merged again meanwhile
            merged, place = self._known
            if walker in place:
                return part(merged[place[walker]], self, walker)
            try:
                return group_at(self.path / walker, self)
            except FileNotFoundError:
                self._look()
        raise FileNotFoundError(f"{self.path}: nothing is published of {walker}")

    def moved(self, walker: str) -> dict[str, Stored]:
        """The arrays of a walker whose group is not where it was."""
        self._look()
        return self.published(walker)[1]

    def _look(self) -> None:
        """See which merged groups there are; one that is damaged has no walkers, see `verify`."""
        groups = {}
        names = os.listdir(self.path) if self.path.exists() else []
        for name in sorted(filter(MERGED.fullmatch, names), key=number_of):
            with contextlib.suppress(FileNotFoundError, OddFile, ValueError, KeyError, TypeError):
                group = self._known[0].get(name) or group_at(self.path / name, self)
                if WALKERS in group[0]:
                    groups[name] = group
        placed = {walker: name for name, group in groups.items() for walker in group[0][WALKERS]}
        self._known = groups, {walker: name for walker, name in placed.items() if OF_WALKER.fullmatch(walker)}


class FrameRow(Mapping[str, np.ndarray]):
    """The variables of one published frame, or of one ended segment."""

    def __init__(self, arrays: Mapping[str, Stored], row: int) -> None:
        self._arrays, self._row = arrays, row

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise MissingVariable(name, ", ".join(self._arrays))
        return self._arrays[name].row(self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def number_of(group: str) -> int:
    """Of `w3` or `m3` it is 3."""
    return int(group[1:])


def group_at(path: Path, frames: Frames) -> Publication:
    """Attributes and arrays of a group, all of its last publication.

    A walker waits for frames between two segments, so zarr does not open the group: that costs hops between threads.

    Raises: FileNotFoundError: there is none. OddFile: see `system.reading`. DamagedGroup.
    """
    file, of = path / "zarr.json", (frames, path.name)
    text = read_inside(file, path.parent)
    try:
        described = json.loads(text)
        arrays = described["consolidated_metadata"]["metadata"]
        if odd := [name for name in arrays if "/" in name or name in ("", ".", "..")]:
            raise ValueError(f"{odd[0]!r} is no name of a variable")
        group = described["attributes"], {name: _stored(of, path / name, array) for name, array in arrays.items()}
        _check_walkers(*group)
        return group
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
        raise DamagedGroup(str(file), f"{type(error).__name__}: {error!s:.200}") from None


def _check_walkers(attributes: Mapping[str, Any], arrays: Mapping[str, Stored]) -> None:
    """Raises: ValueError, TypeError, AttributeError, KeyError: a merged group does not say in which of its rows each of
    its walkers lies."""
    rows = {array.dims[0]: array.rows for array in arrays.values()}
    for walker, known in attributes.get(WALKERS, {}).items():
        spans = dict(known)
        if not isinstance(spans.pop("attributes"), dict):
            raise TypeError(f"{walker} has no attributes")
        for dimension, (first, number) in spans.items():
            if not 0 <= first <= first + number <= rows.get(dimension, 0):
                raise ValueError(f"{walker} has no rows {first} to {first + number} along {dimension}")


def part(group: Publication, frames: Frames, walker: str) -> Publication:
    """Attributes and arrays of one walker of a merged group, as they were in its own."""
    attributes, arrays = group
    known = attributes[WALKERS][walker]
    shared = {key: value for key, value in attributes.items() if key != WALKERS}

    def mine(array: Stored) -> Stored:
        first, rows = known.get(array.dims[0], (0, array.rows))  # other dimensions are the same for all walkers
        return replace(array, of=(frames, walker), first=first, rows=rows)

    return shared | known["attributes"], {name: mine(array) for name, array in arrays.items() if name != WALKER}


def _stored(of: tuple[Frames, str], path: Path, described: Mapping[str, Any]) -> Stored:
    from steersman.store.metadata import layout

    rows, *row = described["shape"]  # but for rows, walkers and publications are alike: zarr takes a while to read one
    like, chunks, dims, attributes, since = layout(json.dumps({**described, "shape": [0, *row]}))
    return Stored(of, path, rows, like, chunks, dims, attributes, since)


def _along(arrays: Mapping[str, Stored], dimension: str | None) -> dict[str, Stored]:
    return {name: array for name, array in arrays.items() if dimension in (None, array.dims[0])}


def _rows(arrays: Mapping[str, Stored]) -> int:
    return min((array.rows for array in arrays.values()), default=0)
