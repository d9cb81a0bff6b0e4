"""Segments of a run -> what their author should know: times of no segment, seeds that change nothing, no frames.

A run does not fail by these, and what it concludes is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steersman.journal import missing
from steersman.journal.recorder import Recorder
from steersman.stages.segment import miscounted
from steersman.store import FRAME, Frames, Span, StoreError
from steersman.store.names import walker_name
from steersman.system.errors import DamagedFile

MOST_SEGMENTS = 64  # that are looked at until one has begun at a frame
MOST_BYTES = 2**25  # of frames that are compared
MOST_SPLITS = 1000  # segments among which two are looked for that began at one frame
CHANGES = 3  # from one of them to the next, that are no chance where two segments share them

Row = dict[str, int]


class Oddities:
    """Notes once each what is odd, also where the run is resumed.

    Args:
        draws: the policy draws new members, so that segments at the prepared start do not begin alike.
    """

    def __init__(self, frames: Frames, recorder: Recorder, *, draws: bool) -> None:
        self._frames, self._recorder = frames, recorder
        self._due = [self._time, self._frameless, self._splits, *([] if draws else [self._seeds])]
        self._seen, self._begun = dict[str, int](), dict[str, int]()  # segments whose times, or starts, were looked at
        self._of_parent = dict[tuple[int, int], tuple[str, Row]]()  # the first segment that began at a frame
        self._at = (-1, -1)  # what was published at the last look
        self._first = 0.0  # time of the first frame after a prepared start

    def look(self) -> None:
        """At what was published since the last look."""
        published = self._recorder.state.published
        if published == self._at:
            return
        self._at = published
        for check in list(self._due):
            try:
                said = check()
            except (StoreError, DamagedFile, OSError, ValueError, KeyError):  # damage is told where it does harm
                said = ""
            if said is not None:
                self._due.remove(check)
                if said and all(getattr(note, "text", "") != said for note in self._recorder.state.notes):
                    self._recorder.note(said)

    def _time(self) -> str | None:
        """Of the first segment that began at a frame some way from a start; of all before it, a clock's times."""
        for name, row in self._fresh(self._seen):
            if "time" not in self._frames.variables(name):
                return ""
            times, before = self._frames.read("time", Span(name, row["first_row"], row["end_row"])), 0.0
            if row["parent_walker"] >= 0:
                parent = self._frames.row(walker_name(row["parent_walker"]), row["parent_row"])
                before = float(parent["time"])
            else:
                self._first = float(times[0])
            if odd := miscounted(times, before, self._first):
                return f"segment {name}.{row['number']}: {odd}; simulated times of this run are wrong"
            if before > 0:
                return ""
        return "" if sum(self._seen.values()) > MOST_SEGMENTS else None

    def _frameless(self) -> str | None:
        if not self._recorder.state.frameless:
            return None
        return "a segment finished without a frame: what it came to is not stored, and no segment goes on from there"

    def _fresh(self, seen: dict[str, int]) -> Iterator[tuple[str, Row]]:
        """Segments with frames that were published since, and their walkers. Args: seen: how many of each walker's."""
        for walker in list(self._recorder.state.walkers.values()):
            if walker.published_segments > (known := seen.get(walker.name, 0)):
                for row in missing.rows(self._frames.publication(walker.name, known)[1].tolist()):
                    seen[walker.name] = row["number"] + 1
                    if row["end_row"] > row["first_row"]:
                        yield walker.name, row

    def _seeds(self) -> str | None:
        """Of two walkers' first segments at the prepared start: all frames that both have are the same."""
        ended = [walker.name for walker in self._recorder.state.walkers.values() if walker.published_segments]
        if len(ended) < 2:
            return None
        one, other = ((name, next(missing.rows(self._frames.read_table(name).tolist()))) for name in ended[:2])
        if max(row["parent_walker"] for _, row in (one, other)) >= 0:
            return ""
        return self._alike(one, other, "at the prepared start") or ""

    def _splits(self) -> str | None:
        """Of two segments that began at one frame, the same: as where its restart state holds the random generator."""
        for name, row in self._fresh(self._begun):
            parent = row["parent_walker"], row["parent_row"]
            before = self._of_parent.setdefault(parent, (name, row))
            if min(parent) >= 0 and before != (name, row):
                said = self._alike(before, (name, row), "at one frame")
                if said is not None:
                    return said
        return "" if sum(self._begun.values()) > MOST_SPLITS else None

    def _alike(self, one: tuple[str, Row], other: tuple[str, Row], where: str) -> str | None:
        """What is said of two segments that began alike with other seeds, if all frames that both have are the same; ""
        if they are not.

        Where nothing happens for long, as in kinetic Monte Carlo, this tells nothing, unless no number was drawn.
        """
        rows = min(row["end_row"] - row["first_row"] for _, row in (one, other))
        if one[1]["seed"] == other[1]["seed"] or not rows:
            return None
        stored = self._frames.stored(one[0], FRAME)
        rows = min(rows, MOST_BYTES // sum(each.like.nbytes for each in stored.values()) + 1)
        changes = np.zeros(rows - 1, bool)
        for variable in stored.keys() - {"segment"}:
            mine, others = (
                self._frames.read(variable, Span(walker, row["first_row"], row["first_row"] + rows))
                for walker, row in (one, other)
            )
            if not np.array_equal(mine, others):
                return ""
            if variable != "time":
                changes |= (mine[1:] != mine[:-1]).reshape(rows - 1, -1).any(axis=1)
        if changes.sum() < CHANGES and any(self._frames.attributes(name).get("drew", True) for name, _ in (one, other)):
            return None
        names = " and ".join(f"{name}.{row['number']}" for name, row in (one, other))
        return (
            f"{names} began {where} with other seeds, and {rows} of their frames are the same: is out.seed used, also "
            "where a restart state is given? If it is not, all segments that begin alike are one"
        )
