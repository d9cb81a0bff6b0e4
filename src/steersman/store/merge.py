"""Groups of walkers that have ended -> one group with all of their frames, so that files grow with data.

A merged group `m0` holds the rows of its walkers one behind another. Its attribute `walkers` says for each of them its
first row and how many there are, along each growing dimension, and the attributes that it does not share with all. The
variable `walker` says it for each frame. What a walker's group is read as stays the same, to the last bit; see
docs/design/010-files-of-many-walkers.md.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steersman.store.errors import StoreError
from steersman.store.frames import (
    FRAME,
    GROWING,
    MERGED,
    WALKER,
    WALKERS,
    Frames,
    Publication,
    Stored,
    group_at,
    number_of,
    part,
)
from steersman.store.group import GroupWriter
from steersman.store.variables import Variable
from steersman.system.files import PARTIAL, sync_folder, sync_tree
from steersman.system.reading import OddFile, read

FAN_IN = 16  # groups become one: as many of each level stay behind, less one; a frame is copied log16 of walkers times
BLOCK_BYTES = 8 * 2**20  # read and written together
SPARE_BYTES = 2**30  # of free space that a merge leaves to walkers
UNPUBLISHED_BYTES = 64 * 2**20  # in memory; a publication writes open shards again


def due(frames: Frames, walkers: Iterable[str], kinds: dict[str, Hashable], fan_in: int = FAN_IN) -> list[str]:
    """Choose groups to merge: of the same variables and of the same level.

    Args:
        walkers: that have ended.
        kinds: what groups have in common with those that they can be merged with, as far as it is known; grows.
    Returns: names of `fan_in` groups; none where there are not as many.
    """
    merged = frames.merged()
    placed = set().union(*merged.values())
    units = {walker: 1 for walker in walkers if walker not in placed} | {name: len(of) for name, of in merged.items()}
    levels: dict[Hashable, list[str]] = {}
    for name, count in units.items():
        if name not in kinds:
            kinds[name] = _kind(frames, name, merged=name in merged)
        if kinds[name] is not None:
            alike = levels.setdefault((kinds[name], _level(count, fan_in)), [])
            alike.append(name)
            if len(alike) == fan_in:
                return alike
    return []


def merge(frames: Frames, names: Iterable[str], into: str, *, stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """Copy groups into a new one, compare it with what they are, and give it its name; they stay.

    Args:
        names: of walkers or of merged groups, which stand for all of their walkers.
        into: m and a number behind that of any merged group before.
        stopped: whether to give it up.
    Returns: the walkers.
    Raises: StoreError: it was given up, or is not what they are. DamagedShard. OSError.
    """
    partial, merged = frames.path / f"{into}.{uuid.uuid4().hex}{PARTIAL}", frames.merged()
    sources = {walker: frames.published(walker) for name in names for walker in merged.get(name, [name])}
    try:
        _write(partial, sources, stopped)
        _compare(frames, partial, sources, stopped)
        sync_tree(partial)  # what it replaces has been there for long
        partial.rename(frames.path / into)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(frames.path)
    return list(sources)


def remove(frames: Frames, name: str) -> None:
    """Remove a group. Nobody finds it once its metadata are gone: so nobody takes a shard for one that never was."""
    path = frames.path / name
    (path / "zarr.json").unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def left_over(frames: Frames) -> list[str]:
    """Folders that a merge has left which did not come to its end; the frames in them are elsewhere too."""
    merged = frames.merged()
    placed = set().union(*merged.values())

    def is_left(name: str) -> bool:
        if name in merged or not (frames.path / name).is_dir():
            return False
        return name in placed or name.endswith(PARTIAL) or _is_merged_again(frames.path / name, placed)

    return sorted(entry.name for entry in frames.path.glob("*") if is_left(entry.name))


def groups_of(walkers: int, fan_in: int = FAN_IN) -> int:
    """How many groups so many walkers end up in, where none is large enough before: the sum of their digits."""
    return 0 if walkers == 0 else walkers % fan_in + groups_of(walkers // fan_in, fan_in)


def has_room(frames: Frames, names: Iterable[str]) -> bool:
    """Whether groups fit beside themselves, and much else too."""
    arrays = (array for name in names for array in frames.published(name)[1].values())
    return (
        2 * sum(array.rows * array.like.nbytes for array in arrays) + SPARE_BYTES < shutil.disk_usage(frames.path).free
    )


def _level(walkers: int, fan_in: int) -> int:
    return 0 if walkers < fan_in else 1 + _level(walkers // fan_in, fan_in)


def _kind(frames: Frames, name: str, *, merged: bool) -> Hashable:
    """What a group has in common with those that it can be merged with; None for a group that stays as it is.

    It stays when it has as many full shards as variables, so that most of its files are data, when it cannot be read,
    or when it has a variable of the name that merged groups use.
    """
    try:
        arrays = frames.published(name)[1]
        if sum(array.rows // array.layout[1] for array in arrays.values()) >= max(1, len(arrays)):
            return None
        if WALKER in arrays and not merged:
            return None
        return tuple(sorted(_alike(name, array) for name, array in arrays.items() if name != WALKER))
    except Exception:  # whatever a damaged group makes its reader raise: `verify` tells
        return None


def _alike(name: str, array: Stored) -> tuple[str, ...]:
    points = "" if array.dims[0] in GROWING else array.read(0, array.rows).tobytes().hex()
    return name, str(array.dims), array.like.dtype.str, str(array.like.shape), str(dict(array.attributes)), points


def _is_merged_again(group: Path, placed: set[str]) -> bool:
    if not MERGED.fullmatch(group.name):
        return False
    try:
        attributes: dict[str, Any] = json.loads(read(group / "zarr.json", group.parent))["attributes"]
        return placed.issuperset(attributes[WALKERS])
    except FileNotFoundError:  # these go first
        return True
    except (OddFile, ValueError, KeyError, TypeError):  # damaged: `verify` tells
        return False


def _write(path: Path, sources: Mapping[str, Publication], stopped: Callable[[], bool]) -> None:
    attributes, arrays = next(iter(sources.values()))
    common = dict(attributes)
    for own, _ in sources.values():
        common = {key: value for key, value in common.items() if key in own and own[key] == value}
    meaning = {name: Variable(array.dims[1:], **array.attributes) for name, array in arrays.items()}
    meaning[WALKER] = Variable(long_name="number of the walker that made the frame")
    table: dict[str, Any] = {}
    writer = GroupWriter(path, variables=meaning, attributes=common | {WALKERS: table})
    unpublished = 0
    for name, array in arrays.items():
        if array.dims[0] not in GROWING:  # where points of other dimensions lie: the same for all
            writer.extend(array.dims[0], {name: array.read(0, array.rows)})
    for walker, (own, of_walker) in sources.items():
        table[walker] = {"attributes": {key: value for key, value in own.items() if key not in common}}
        for dimension in GROWING:
            along = {name: array for name, array in of_walker.items() if array.dims[0] == dimension}
            rows = min((array.rows for array in along.values()), default=0)
            table[walker][dimension] = [writer.rows.get(dimension, 0), rows]
            for first, end in _blocks(along) if along else ():
                if stopped():
                    raise _failed(path.name, "it was given up")
                block = {name: array.read(first, end) for name, array in along.items()}
                if dimension == FRAME:
                    block[WALKER] = np.full(end - first, number_of(walker), np.int32)
                writer.extend(dimension, block)
                unpublished += sum(each.nbytes for each in block.values())
                if unpublished > UNPUBLISHED_BYTES:
                    writer.publish()
                    unpublished = 0
    writer.close()


def _compare(frames: Frames, path: Path, sources: Mapping[str, Publication], stopped: Callable[[], bool]) -> None:
    """Raises: StoreError: a walker would be read as something else than before."""
    group = group_at(path, frames)
    for walker, (attributes, arrays) in sources.items():
        found_attributes, others = part(group, frames, walker)
        if found_attributes != attributes or others.keys() != arrays.keys():
            raise _failed(path.name, f"{walker} has other attributes or variables there")
        for name, array in arrays.items():
            if _described(array) != _described(others[name]):
                raise _failed(path.name, f"{name} of {walker} is described otherwise there")
            for first, end in _blocks({name: array}):
                if stopped():
                    raise _failed(path.name, "it was given up")
                if array.read(first, end).tobytes() != others[name].read(first, end).tobytes():
                    raise _failed(path.name, f"{name} of {walker} has other values there")


def _failed(group: str, problem: str) -> StoreError:
    return StoreError(f"{group} was not made: {problem}; the groups of its walkers stay")


def _described(array: Stored) -> tuple[object, ...]:
    return array.rows, array.dims, array.like.dtype, array.like.shape, array.like.tobytes(), array.attributes


def _blocks(arrays: Mapping[str, Stored]) -> Iterator[tuple[int, int]]:
    """Rows [first, end) that are read together; one block of no rows where there are none."""
    rows = min(array.rows for array in arrays.values())
    step = max(1, BLOCK_BYTES // sum(array.like.nbytes for array in arrays.values()))
    for first in range(0, max(1, rows), step):
        yield first, min(rows, first + step)
