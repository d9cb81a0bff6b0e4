"""Segments that are packed are what they were, and take little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.journal import published, scoreboard
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.records import Began, Ended, FrameId, Hired, Published, Run, Start
from steersman.journal.scoreboard import stale, unscored
from steersman.journal.segments import RUNNING, Segment, Segments
from steersman.journal.state import State
from steersman.steering import Unsteered
from steersman.store import Span
from steersman.store.names import walker_name


def made(count: int, walker: int = 3) -> list[Segment]:
    """Segments of four frames, every third empty, the last one running."""
    ends = [4 * number + 4 * (number % 3 > 0) for number in range(count)]
    each = [
        Segment(walker, number, 7 * number, 4 * number, end, "finished", repeats=number % 5 > 0)
        for number, end in enumerate(ends)
    ]
    each[-1].end = None
    return each


def test_packed_segments_are_those_that_were_appended() -> None:
    """Whatever was packed when: as a list, from behind, in slices and in columns."""
    segments, listed = Segments(3), made(100)
    for number, segment in enumerate(made(100)):
        segments.append(segment)
        segments.pack(published=number)
    assert list(segments) == listed
    assert segments[-2:] == listed[-2:]
    assert segments[2:9:3] == listed[2:9:3]
    assert segments[-1] is segments[99], "one that runs is not a copy"
    columns = segments.columns()
    assert columns["start"].tolist() == [each.start for each in listed]
    assert columns["first"].tolist() == [each.first for each in listed]
    assert columns["end"].tolist() == [RUNNING if each.end is None else each.end for each in listed]
    assert columns["counts"].all()
    assert columns["repeats"].tolist() == [each.repeats for each in listed]
    segments.leave_out(frames=400)
    assert not any(each.counts for each in segments)
    assert segments[-1].end == 400


def test_columns_are_in_the_order_of_walkers_whichever_the_journal_named_first() -> None:
    """A repair finds a walker out again whose line was damaged; readers search in these columns."""
    hired = [Hired(walker=number, slot=0) for number in (2, 0, 1)]
    begun = [Began(walker=number, segment=0, start=9 - number, first_row=0) for number in (1, 2, 0)]
    columns = published.segments(State([Run(workflow="x", seed=1), *hired, *begun]))
    assert columns["walker"].tolist() == [0, 1, 2]
    assert columns["start"].tolist() == [9, 8, 7]


def test_a_packed_segment_takes_less_than_20_bytes() -> None:
    """Fields of 4, 4, 4, 1, 1, 1 and 1 bytes, and the block that is not full; not what threads of other tests take."""
    tracemalloc.start()
    segments = Segments(0)
    for number in range(10_000):
        segments.append(Segment(0, number, number, 4 * number, 4 * number + 4, "finished"))
        segments.pack(published=number + 1)
    ours = tracemalloc.Filter(inclusive=True, filename_pattern="*/journal/segments.py")
    grown = sum(each.size for each in tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename"))
    tracemalloc.stop()
    assert 16 < grown / 10_000 < 20


def played(*, unsteered: bool = False) -> State:
    """Three walkers take turns with segments of 0 to 3 frames; some start from one frame, or all go on."""
    state, random = State(), np.random.default_rng(0)
    state.apply(Run())
    for walker in range(3):
        state.apply(Hired(walker=walker, slot=walker))
    rows, numbers = [0, 0, 0], [0, 0, 0]
    for start in range(60):
        walker, frames = start % 3, int(random.integers(0, 4)) or int(unsteered)
        parent = FrameId(0, 0, 0) if start % 5 == 4 else None
        if unsteered:
            parent = FrameId(walker, rows[walker] - 1, numbers[walker] - 1) if rows[walker] else None
        number, first = numbers[walker], rows[walker]
        state.apply(Start(t=1.0, start=start, seed=start, parent=parent, slot=walker))
        state.apply(Began(t=1.0, walker=walker, segment=number, start=start, first_row=first))
        rows[walker], numbers[walker] = first + frames, number + 1
        state.apply(Ended(
            t=1.0, walker=walker, segment=number, start=start, first_row=first, end_row=first + frames,
            how="finished", simulated=1.0,
        ))  # fmt: skip
        state.apply(Published(t=1.0, walker=walker, frames=first + frames, segments=number + 1))
    return state


def test_all_frames_are_looked_at_as_their_spans_say() -> None:
    """Each published frame that counts, once, in order of starts, with the segment that made it and where that ends."""
    state = played()
    scores = unscored(state)
    expected = [(int(span.walker[1:]), row) for span in published.spans(state) for row in range(span.first, span.end)]
    assert list(zip(scores.walker.tolist(), scores.row.tolist(), strict=True)) == expected
    for walker, row, segment, ends, starts in zip(
        scores.walker, scores.row, scores.segment, scores.ends, scores.starts, strict=True
    ):
        found = published.segment_of(state, int(walker), int(row))
        assert found is not None
        assert (found.number, found.end == row + 1) == (segment, ends)
        assert starts == (12 if (walker, row) == (0, 0) else 0)


def test_in_rounds_scores_stand_in_order_of_starts_whichever_walker_ran_them(tmp_path: Path) -> None:
    """Another policy's random numbers, or sums, would come out otherwise after a walker died. Without rounds they stand
    as they came."""

    def scored(folder: Path, ran: list[tuple[int, int]], *, rounds: bool) -> list[float]:
        state, board, rows = State(), scoreboard.Scoreboard(folder, 0), [0, 0, 0]
        state.apply(Run(rounds=rounds))
        for walker in range(3):
            state.apply(Hired(walker=walker, slot=min(walker, 1)))
        for start in range(4):
            state.apply(Start(start=start, seed=start, slot=start % 2))
        for walker, start in ran:
            first, number = rows[walker], rows[walker] // 2
            at: dict[str, Any] = {"walker": walker, "segment": number, "start": start, "first_row": first}
            rows[walker] += 2
            state.apply(Began(**at))
            state.apply(Ended(**at, end_row=rows[walker], how="finished", simulated=1.0))
            state.apply(Published(walker=walker, frames=rows[walker], segments=number + 1))
            board.add([Span(walker_name(walker), first, rows[walker])], {"start": np.full(2, float(start))})
        return list(board.scores(state).values["start"])

    died = [(0, 0), (0, 2), (2, 3), (2, 1)]
    assert scored(tmp_path / "died", died, rounds=True) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert scored(tmp_path / "free", died, rounds=False) == [0, 0, 2, 2, 3, 3, 1, 1]


@pytest.mark.parametrize("most", [0, 1, 7, 1000])
def test_the_newest_frames_are_the_last_of_all(most: int) -> None:
    """In order of starts; the oldest segment of them gives its last frames. A tenth of the starts is held out."""
    state = played()
    rows = [(span.walker, row) for span in published.spans(state) for row in range(span.first, span.end)]
    newest = [(s.walker, row) for s in published.spans(state, most=most) for row in range(s.first, s.end)]
    assert newest == rows[max(len(rows) - most, 0) :]
    for span in published.spans(state, most=most):  # a segment in each, for pairs of frames never cross an end
        first, last = (published.segment_of(state, int(span.walker[1:]), row) for row in (span.first, span.end - 1))
        assert first == last
    parts = [published.spans(state, held_out=part, most=1000) for part in (True, False)]
    assert sorted(parts[0] + parts[1]) == sorted(published.spans(state))
    assert 0 < len(parts[0]) <= 60 // 10


@pytest.mark.parametrize("drawn", [(), (2, 5, 11)])
def test_scores_mark_the_frames_that_no_training_gets(drawn: tuple[int, ...]) -> None:
    """Those of the starts that were drawn for it; every tenth, where none was."""
    state = played()
    state.mode(HeldOut).drawn.update(drawn)
    spans = published.spans(state, held_out=True)
    held_out = {(int(span.walker[1:]), row) for span in spans for row in range(span.first, span.end)}
    scores = unscored(state)
    rows = zip(scores.walker.tolist(), scores.row.tolist(), strict=True)
    assert [row in held_out for row in rows] == scores.held_out.tolist()
    assert held_out


@pytest.mark.parametrize("period", [2, 3, 5, 10, 20])
def test_what_is_held_out_is_a_tenth_of_whatever_takes_turns(period: int) -> None:
    """Conditions, slots and bins do; every tenth start would be one of them alone, or never one."""
    state, starts = State([Run(workflow="x", seed=1, scattered=True)]), np.arange(20_000)
    held = state.mode(HeldOut).has(starts)
    assert held.reshape(-1, 10).sum(1).tolist() == [1] * 2000, "one of each ten"
    share = np.bincount(starts[held] % period, minlength=period) / 2000
    np.testing.assert_allclose(share, 1 / period, atol=4 * np.sqrt(1 / period / 2000))


def test_of_members_of_windows_whole_first_ones_are_held_out() -> None:
    """Thirty that are drawn, from each of which two go on, and from one of these two more."""
    state, parents = State(), dict[int, int]()
    state.apply(Hired(walker=0, slot=0))
    for number in range(118):
        parents[number] = -1 if number < 30 else (number - 30) // 2 if number < 90 else 30 + 2 * (number - 90)
        parent = None if number < 30 else FrameId(0, parents[number], parents[number])
        draw = {"point": 0.5} if number < 30 else {}
        state.apply(Start(start=number, seed=0, parent=parent, draw=draw, round=1 + (number >= 30), weight=1 / 30))
        at: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number}
        state.apply(Began(**at))
        state.apply(Ended(**at, end_row=number + 1, how="finished", simulated=1.0))
    for number in range(118, 128):  # of the next window
        state.apply(Start(start=number, seed=0, draw={"point": 0.5}, round=3, weight=0.1))
    held = state.mode(HeldOut).has(np.arange(-1, 128))[1:]
    assert np.flatnonzero(held[118:]).tolist() == [9]
    assert np.flatnonzero(held[:30]).tolist() == [9, 19, 29]
    assert all(held[number] == held[parent] for number, parent in parents.items() if parent >= 0)


def test_a_member_that_was_stopped_is_none_to_go_on_from() -> None:
    """It is not as old as the others of its round; without weights it may be any frame."""
    for weight, ends in ((0.5, [True, False]), (0.0, [True, True])):
        state = State()
        state.apply(Hired(walker=0, slot=0))
        for number, how in enumerate(("finished", "stopped")):
            state.apply(Start(start=number, seed=0, round=int(weight > 0), weight=weight))
            at: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number}
            state.apply(Began(**at))
            state.apply(Ended(**at, end_row=number + 1, how=how, simulated=1.0))
        state.apply(Published(walker=0, frames=2, segments=2))
        assert unscored(state).ends.tolist() == ends


def test_of_too_many_frames_an_even_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third of them, where two thirds are too many; a function of the state, as a replay needs it."""
    state = played()
    every = unscored(state)
    monkeypatch.setattr(scoreboard, "MOST", -(-len(every) // 3))
    monkeypatch.setattr(scoreboard, "FEW", 0)
    for scores in (unscored(state), unscored(state)):
        for name in ("walker", "row", "segment", "starts", "ends"):
            assert getattr(scores, name).tolist() == getattr(every, name)[::3].tolist(), name


def test_a_sample_holds_the_frames_to_go_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsteered finds the end of each of its chains, however many frames there are."""
    state = played(unsteered=True)
    every = unscored(state)
    monkeypatch.setattr(scoreboard, "MOST", 10)
    monkeypatch.setattr(scoreboard, "FEW", 3)
    scores, rng = unscored(state), np.random.default_rng(0)
    assert len(scores) <= 10 + 3
    chains = [[(s.walker[c.index], s.row[c.index]) for c in Unsteered().rank(s, rng)] for s in (every, scores)]
    assert chains[0] == chains[1]
    assert len(chains[0]) == 3


def test_what_was_seen_is_out_of_date_by_one_in_a_hundred() -> None:
    """And at once while there is little."""
    assert stale((-1, -1), (0, 0), 10)
    assert stale((50, 5), (51, 5), 10)
    assert not stale((1000, 100), (1010, 100), 10)
    assert stale((1000, 100), (1011, 100), 10)
    assert not stale((0, 0), (100, 0), 10_000), "where each look goes through thousands of walkers"
    assert stale((0, 0), (101, 0), 10_000)
