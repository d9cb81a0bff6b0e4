"""State -> published frames: which of them count, in what order, and which segment made one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from steersman.journal.modes.held_out import HeldOut
from steersman.journal.segments import RUNNING, Segment, Segments
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.store import Span
from steersman.store.names import walker_name


def segments(state: State) -> dict[str, np.ndarray]:
    """Columns of all segments, in order of walkers and their rows.

    Returns: (n,) int64 walker, number, start, first, end (RUNNING: none yet), how (of HOW) and published (the row
        behind the last published one), and bool counts, state, repeats and settled (its end is published).
    """
    walkers = list(state.walkers.values())
    each = [walker.segments.columns() for walker in walkers]
    lengths = [len(columns) for columns in each]
    rows = np.concatenate(each) if each else Segments(0).columns()
    start, first, end = (rows[name].astype(np.int64) for name in ("start", "first", "end"))
    walker, frames, ended = (
        np.repeat(np.array([getattr(walker, name) for walker in walkers], np.int64), lengths)
        for name in ("number", "frames", "published_segments")
    )
    number = np.arange(len(rows)) - np.repeat(np.cumsum(lengths, dtype=np.int64) - lengths, lengths)
    return {
        "walker": walker, "number": number, "start": start, "first": first, "end": end, "counts": rows["counts"],
        "how": rows["how"], "state": rows["state"], "repeats": rows["repeats"], "settled": number < ended,
        "published": np.where(end == RUNNING, frames, np.minimum(frames, end)),
    }  # fmt: skip


def in_order(table: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which segments have published frames that count, in order of starts."""
    index = np.flatnonzero(table["counts"] & (table["published"] > table["first"]))
    return np.asarray(index[np.argsort(table["start"][index], kind="stable")])


def spans(state: State, *, held_out: bool | None = None, most: int | None = None) -> list[Span]:
    """Published frames that count, by segment, in order of starts, with the weights of the members that made them.

    The order, and what is held out, is by start: which walker ran it does not matter.

    Args:
        held_out: only held-out ones, or only the others.
        most: the newest of them, at most so many frames.
    """
    table = segments(state)
    order = in_order(table)
    if held_out is not None:
        order = order[state.mode(HeldOut).has(table["start"][order]) == held_out]
    weight = np.ones(len(order))
    for mode in state.modes:
        weight = mode.columns(table["start"][order]).get("weight", weight)
    walker, first, end = (table[name][order] for name in ("walker", "first", "published"))
    if most is not None:
        newer = np.cumsum((end - first)[::-1])[::-1] - (end - first)
        first = np.maximum(first, end - (most - newer))
        walker, first, end, weight = (column[newer < most] for column in (walker, first, end, weight))
    columns = (each.tolist() for each in (walker, first, end, weight))
    return [Span(walker_name(w), a, b, c) for w, a, b, c in zip(*columns, strict=True)]


def spans_after(state: State, done: Mapping[str, int]) -> list[Span]:
    """Published frames that count, from row `done[walker]` on; costs what is new, not what there is.

    In order of starts, as far as the rows of a walker stay in theirs.
    """
    return [span for _, span in sorted(chain.from_iterable(_new(walker, done) for walker in state.walkers.values()))]


def segment_of(state: State, walker: int, row: int) -> Segment | None:
    """The segment that made a frame."""
    of_walker = state.walkers[walker].segments
    at = int(np.searchsorted(of_walker.columns()["first"], row, side="right")) - 1
    while at > 0 and of_walker[at].end is not None and of_walker[at].end <= row:  # type: ignore[operator]
        at -= 1  # an empty segment shares its first row with the next one
    return of_walker[at] if at >= 0 else None


def _new(walker: Walker, done: Mapping[str, int]) -> Iterator[tuple[int, Span]]:
    first = done.get(walker.name, 0)
    fresh: list[Segment] = []
    for segment in reversed(walker.segments):
        fresh.append(segment)
        if segment.first <= first:
            break
    newest = 0
    for segment in reversed(fresh):
        end = walker.rows_end(segment)
        if segment.counts and end > max(first, segment.first):
            newest = max(newest, segment.start)
            yield newest, Span(walker.name, max(first, segment.first), end)
