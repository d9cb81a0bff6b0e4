"""A group on disk -> what is wrong with it: metadata that differ, shards that are missing, checksums."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.errors import DamagedShard
from steersman.store.frames import FRAME, WALKER, Frames, Span, Stored
from steersman.store.shard import shards_there
from steersman.store.variables import SINCE
from steersman.system.errors import EngineError
from steersman.system.reading import read

READ_ROWS = 2**15  # one read looks at a shard or two
MOST_LOST = 10_000  # chunks of an array that are looked at one by one: metadata may claim any number of rows


def damages(groups: Frames, name: str) -> Iterator[str]:
    """Read all of a group; gives a sentence for each thing that is not whole.

    Raises: whatever zarr and its codecs raise on damaged data.
    """
    yield from differing(groups.path / name)
    for variable, metadata in _described(groups.path / name).items():
        yield from _shards(groups.path / name / variable, metadata)
    for array in groups.stored(name).values():
        for first in range(0, array.rows, READ_ROWS):
            array.read(first, min(array.rows, first + READ_ROWS))


def differing(group: Path) -> Iterator[str]:
    """A sentence for each array of a group whose own metadata are not those that the group publishes."""
    for variable, metadata in _described(group).items():
        yield from _metadata(group / variable, metadata)


def unreadable(groups: Frames, walker: str) -> dict[str, np.ndarray]:
    """Read all of a walker, wherever it lies: which rows along each dimension cannot be read of all variables.

    Returns: (rows,) bool by dimension.
    Raises: DamagedShard: these are too many. FileNotFoundError: its group is there no more.
    """
    damaged: dict[str, np.ndarray] = {}
    for array in groups.stored(walker).values():
        lost, chunks = damaged.setdefault(array.dims[0], np.zeros(array.rows, bool)), 0
        for first in range(0, array.rows, READ_ROWS):
            for begin, end in _unreadable(array, first, min(array.rows, first + READ_ROWS)):
                lost[begin:end] = True
                chunks += 1
                if chunks > MOST_LOST:
                    raise DamagedShard(str(array.path))
    return damaged


def _unreadable(array: Stored, first: int, end: int) -> Iterator[tuple[int, int]]:
    """The rows of each chunk that cannot be read."""
    if _can_be_read(array, first, end):
        return
    chunk = array.layout[0]
    for edge in range((array.first + first) // chunk * chunk, array.first + end, chunk):
        begin, behind = max(first, edge - array.first), min(end, edge + chunk - array.first)
        if not _can_be_read(array, begin, behind):
            yield begin, behind


def _can_be_read(array: Stored, first: int, end: int) -> bool:
    try:
        array.read(first, end)
    except FileNotFoundError:
        raise
    except (EngineError, OSError, ValueError):
        return False
    return True


def read_walkers(groups: Frames, group: str) -> None:
    """Read of a merged group whose its frames are, if its walkers have made any. Raises: as `damages`."""
    arrays = groups.stored(group)
    if WALKER in arrays or any(groups.count(walker) for walker in groups.merged()[group]):
        arrays[WALKER].read(0, arrays[WALKER].rows)


def whose(groups: Frames, walker: str) -> np.ndarray:
    """(rows,) int: for each frame of a walker in a merged group, the walker that it says it is of."""
    arrays = groups.stored(walker, FRAME)
    rows = next((range(array.first, array.first + array.rows) for array in arrays.values()), range(0))
    return groups.read(WALKER, Span(groups.group(walker), rows.start, rows.stop)) if rows else np.empty(0, np.int32)


def _described(group: Path) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(read(group / "zarr.json", group.parent))["consolidated_metadata"]["metadata"]
    return described


def _metadata(array: Path, published: dict[str, Any]) -> Iterator[str]:
    """An array's own metadata are those that the group publishes, but for the rows, which are written at the end."""
    own = json.loads(read(array / "zarr.json", array.parent.parent))
    if {**own, "shape": 0} != {**published, "shape": 0} or own["shape"][1:] != published["shape"][1:]:
        yield f"{array.name}: its zarr.json differs from the group's metadata"


def _shards(array: Path, published: dict[str, Any]) -> Iterator[str]:
    """Zarr reads a shard that is missing as fill values. Those before the first row of a late variable are not made."""
    rows, *row = published["shape"]
    shard_rows = published["chunk_grid"]["configuration"]["chunk_shape"][0]
    there = {number for number in shards_there(array) if array.joinpath("c", str(number), *["0"] * len(row)).is_file()}
    wanted = range(published["attributes"].get(SINCE, 0) // shard_rows, math.ceil(rows / shard_rows))
    if missing := sorted(set(wanted) - there):
        yield f"{array.name}: shard {missing[0]} is missing"
