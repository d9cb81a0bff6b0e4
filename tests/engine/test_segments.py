"""Segments that are packed are what they were, and take little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np

from steersman.engine.scoreboard import stale, unscored
from steersman.engine.segments import RUNNING, Segment, Segments
from steersman.engine.state import State


def made(count: int, walker: int = 3) -> list[Segment]:
    """Segments of four frames, every third empty, the last one running."""
    ends = [4 * number + 4 * (number % 3 > 0) for number in range(count)]
    each = [
        Segment(walker, number, 7 * number, 4 * number, end, "finished", simulated=float(number))
        for number, end in enumerate(ends)
    ]
    each[-1].end = None
    return each


def test_packed_segments_are_those_that_were_appended() -> None:
    """Whatever was packed when: as a list, from behind, in slices and in columns."""
    segments, listed = Segments(3), made(10)
    for number, segment in enumerate(made(10)):
        segments.append(segment)
        segments.pack(published=number)
    assert list(segments) == listed
    assert segments[-2:] == listed[-2:]
    assert segments[2:9:3] == listed[2:9:3]
    assert segments[-1] is segments[9], "one that runs is not a copy"
    start, first, end, counts = segments.columns()
    assert start.tolist() == [each.start for each in listed]
    assert first.tolist() == [each.first for each in listed]
    assert end.tolist() == [RUNNING if each.end is None else each.end for each in listed]
    assert counts.all()
    assert segments.leave_out(frames=40)[0] == listed[0]
    assert not any(each.counts for each in segments)
    assert segments[-1].end == 40


def test_a_packed_segment_takes_less_than_60_bytes() -> None:
    """Six columns of 8, 8, 8, 8, 8 and 1 bytes, and what lists grow ahead by."""
    tracemalloc.start()
    segments, before = Segments(0), tracemalloc.get_traced_memory()[0]
    for number in range(10_000):
        segments.append(Segment(0, number, number, 4 * number, 4 * number + 4, "finished"))
        segments.pack(published=number + 1)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown / 10_000 < 60


def test_all_frames_are_looked_at_as_their_spans_say() -> None:
    """Each published frame that counts, once, in order of starts, with the segment that made it and where that ends."""
    state, random = State(), np.random.default_rng(0)
    state.apply({"t": 0.0, "kind": "run"})
    for walker in range(3):
        state.apply({"t": 0.0, "kind": "walker", "walker": walker, "slot": walker})
    rows, numbers = [0, 0, 0], [0, 0, 0]
    for start in range(60):
        walker, frames = start % 3, int(random.integers(0, 4))
        parent = [0, 0, 0] if start % 5 == 4 else None
        told = {"walker": walker, "segment": numbers[walker], "start": start, "first_row": rows[walker], "t": 1.0}
        state.apply({"t": 1.0, "kind": "start", "start": start, "parent": parent, "slot": walker})
        state.apply(told | {"kind": "began", "waited_s": 0.0})
        rows[walker], numbers[walker] = rows[walker] + frames, numbers[walker] + 1
        ended = {"end_row": rows[walker], "how": "finished", "cause": "", "read_s": 0, "ran_s": 0, "simulated": 1.0}
        state.apply(told | ended | {"kind": "ended"})
        published = {"walker": walker, "frames": rows[walker], "segments": numbers[walker]}
        state.apply({"t": 1.0, "kind": "frames"} | published)
    scores = unscored(state)
    expected = [(int(span.walker[1:]), row) for span in state.spans() for row in range(span.first, span.end)]
    assert list(zip(scores.walker.tolist(), scores.row.tolist(), strict=True)) == expected
    for walker, row, segment, ends, starts in zip(
        scores.walker, scores.row, scores.segment, scores.ends, scores.starts, strict=True
    ):
        found = state.segment_of(int(walker), int(row))
        assert found is not None
        assert (found.number, found.end == row + 1) == (segment, ends)
        assert starts == (12 if (walker, row) == (0, 0) else 0)


def test_what_was_seen_is_out_of_date_by_one_in_a_hundred() -> None:
    """And at once while there is little."""
    assert stale((-1, -1), (0, 0), 10)
    assert stale((50, 5), (51, 5), 10)
    assert not stale((1000, 100), (1010, 100), 10)
    assert stale((1000, 100), (1011, 100), 10)
    assert not stale((0, 0), (100, 0), 10_000), "where each look goes through thousands of walkers"
    assert stale((0, 0), (101, 0), 10_000)
