"""A group on disk -> what is wrong with it: metadata that differ, shards that are missing, checksums."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.column import SINCE
from steersman.store.frames import FRAME, WALKER, Frames, Span
from steersman.store.shard import shards_there

READ_ROWS = 2**15  # one read looks at a shard or two


def damages(groups: Frames, name: str) -> Iterator[str]:
    """Read all of a group; gives a sentence for each thing that is not whole.

    Raises: whatever zarr and its codecs raise on damaged data.
    """
    yield from incomplete(groups.path / name)
    read_all(groups, name)


def incomplete(group: Path) -> Iterator[str]:
    """Look which files of a group are there; gives a sentence for each thing that is not as its metadata say."""
    described = json.loads((group / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"]
    for variable, metadata in described.items():
        yield from _metadata(group / variable, metadata)
        yield from _shards(group / variable, metadata)


def read_all(groups: Frames, walker: str) -> None:
    """Read all rows of a walker, wherever they lie. Raises: as `damages`."""
    for array in groups.stored(walker).values():
        for first in range(0, array.rows, READ_ROWS):
            array.read(first, min(array.rows, first + READ_ROWS))


def read_walkers(groups: Frames, group: str) -> None:
    """Read of a merged group whose its frames are. Raises: as `damages`."""
    array = groups.stored(group)[WALKER]
    array.read(0, array.rows)


def whose(groups: Frames, walker: str) -> np.ndarray:
    """(rows,) int: for each frame of a walker in a merged group, the walker that it says it is of."""
    found = groups.stored(walker, FRAME)
    rows = next((range(array.first, array.first + array.rows) for array in found.values()), range(0))
    return groups.read(WALKER, Span(groups.group(walker), rows.start, rows.stop)) if rows else np.empty(0, np.int32)


def _metadata(array: Path, published: dict[str, Any]) -> Iterator[str]:
    """An array's own metadata are those that the group publishes, but for the rows, which are written at the end."""
    own = json.loads((array / "zarr.json").read_bytes())
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
