"""A group on disk -> what is wrong with it: metadata that differ, shards that are missing, checksums."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steersman.store.frames import FRAME, SEGMENT, Frames, Span
from steersman.store.shard import shards_there

READ_ROWS = 2**15  # one read looks at a shard or two


def damages(groups: Frames, name: str) -> Iterator[str]:
    """Read all of a group; gives a sentence for each thing that is not whole.

    Raises: whatever zarr and its codecs raise on damaged data.
    """
    path = groups.path / name
    described = json.loads((path / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"]
    for variable, metadata in described.items():
        yield from _metadata(path / variable, metadata)
        yield from _shards(path / variable, metadata)
    for dimension in {FRAME, SEGMENT, *(metadata["dimension_names"][0] for metadata in described.values())}:
        rows = groups.rows(name, dimension)
        for variable in groups.variables(name, dimension):
            for first in range(0, rows, READ_ROWS):
                groups.read(variable, Span(name, first, min(rows, first + READ_ROWS)), dimension=dimension)


def _metadata(array: Path, published: dict[str, Any]) -> Iterator[str]:
    """An array's own metadata are those that the group publishes, but for the rows, which are written at the end."""
    own = json.loads((array / "zarr.json").read_bytes())
    if {**own, "shape": 0} != {**published, "shape": 0} or own["shape"][1:] != published["shape"][1:]:
        yield f"{array.name}: its zarr.json differs from the group's metadata"


def _shards(array: Path, published: dict[str, Any]) -> Iterator[str]:
    """Zarr reads a shard that is missing as fill values."""
    rows, *row = published["shape"]
    shard_rows = published["chunk_grid"]["configuration"]["chunk_shape"][0]
    there = {number for number in shards_there(array) if array.joinpath("c", str(number), *["0"] * len(row)).is_file()}
    wanted = range(min(there, default=0), math.ceil(rows / shard_rows))  # a state may begin with a later segment
    if missing := sorted(set(wanted) - there):
        yield f"{array.name}: shard {missing[0]} is missing"
