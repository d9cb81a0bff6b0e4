"""Store -> records: what a walker committed and the journal does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steersman.journal import published
from steersman.journal.records import UNKNOWN, Began, Ended, FrameId, Start
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.store import ENDED, SEGMENT_FIELDS, Frames


def rows(table: list[list[int]]) -> Iterator[dict[str, int]]:
    """Rows of a walker's table of segments, by field."""
    return (dict(zip(SEGMENT_FIELDS, values, strict=True)) for values in table)


def of_segment(frames: Frames, walker: Walker, row: dict[str, int], t: float = 0.0) -> Iterator[Began | Ended]:
    """That a published segment began and ended, as far as it is not known; each is to be applied before the next.

    Args:
        t: of the records; a recorder gives them its own.
    Raises: StoreError, DamagedFile: its last frame cannot be read.
    """
    facts: dict[str, Any] = {"t": t, "walker": walker.number, "segment": row["number"], "start": row["start"],
                            "first_row": row["first_row"]}  # fmt: skip
    if row["number"] >= len(walker.segments):
        yield Began(**facts, adopted=True)
    if walker.segments[row["number"]].end is None:
        time, how = simulated(frames, walker.name, row["first_row"], row["end_row"]), ENDED[row["ended"]]
        yield Ended(
            **facts, end_row=row["end_row"], how=how, simulated=time,
            state=row["state_bytes"] != 0, repeats=row["repeats"] != 0, adopted=True,
        )  # fmt: skip


def start_of(state: State, row: dict[str, int], slot: int) -> Start:
    """The start of a published segment, where its record is lost: with the end of the journal, or a damaged line."""
    parent = None
    if row["parent_walker"] >= 0:
        made_by = published.segment_of(state, row["parent_walker"], row["parent_row"])
        parent = FrameId(row["parent_walker"], row["parent_row"], made_by.number if made_by else 0)
    return Start(
        start=row["start"], seed=row["seed"], model=row["model"], slot=slot, parent=parent, policy=UNKNOWN,
        exact=row["exact"] == 1, reason="the record of the decision was lost; the start is known from the store",
    )  # fmt: skip


def simulated(frames: Frames, name: str, first: int, end: int) -> float:
    """Simulated time of rows [first, end) of a segment: the `time` of the last one."""
    if end <= first or "time" not in frames.variables(name):
        return 0.0
    return max(0.0, float(frames.row(name, end - 1)["time"]))
