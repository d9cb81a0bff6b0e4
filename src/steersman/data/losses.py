"""Frames of a walker that cannot be read -> the segments that they cost; the others stay where they are."""

from __future__ import annotations

import numpy as np

from steersman.journal.walkers import Walker
from steersman.store import FRAME, RESTART, SEGMENT, DamagedShard, Frames
from steersman.store.check import unreadable
from steersman.store.frames import STATE
from steersman.store.states import rows_of


def unreadable_segments(frames: Frames, walker: Walker) -> tuple[int, ...]:
    """The numbers of the segments of which a frame or the state cannot be read.

    Raises: DamagedShard: all of the walker is lost: its table of segments is, or a segment that is not published yet.
    """
    lost = unreadable(frames, walker.name)
    table = frames.read_table(walker.name)
    rows, ended, states = (lost.pop(dimension, np.zeros(0, bool)) for dimension in (FRAME, SEGMENT, RESTART))
    found = set(np.flatnonzero(ended).tolist())  # in runs of before, states lie there
    for number, (first, size) in enumerate(table[:, STATE : STATE + 2].tolist()):
        if size > 0 and states[first : first + rows_of(size)].any():
            found.add(number)
    found.update(each.number for each in walker.segments if rows[each.first : walker.rows_end(each)].any())
    known = walker.published_segments if walker.alive else len(walker.segments)
    if rows[walker.frames :].any() or any(each.any() for each in lost.values()) or max(found, default=-1) >= known:
        raise DamagedShard(str(frames.path / frames.group(walker.name)))
    return tuple(sorted(found))
