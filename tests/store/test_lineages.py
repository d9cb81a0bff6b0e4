"""Which frames came of which: against a walk from frame to frame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, Frames, GroupWriter, Span, Window
from steersman.store.names import walker_name
from steersman.system.errors import BadValue

WINDOW = 3


@dataclass
class Segment:
    """Of a hand-made run: where it began, and its frames."""

    walker: int
    first: int
    times: list[float]
    parent: Segment | None = None
    row: int = -1  # of the parent's frames
    exact: bool = True
    state: bool = True
    conditions: int = 0
    ended: int = 0
    age: int = 1  # at its last frame
    weight: float = 1.0
    children: list[Segment] = field(default_factory=list)

    @property
    def before(self) -> Segment | None:
        """What it goes on from exactly."""
        whole = self.parent and self.exact and self.row == len(self.parent.times) - 1
        return self.parent if whole and self.parent and self.parent.conditions == self.conditions else None

    @property
    def span(self) -> Span:
        return Span(walker_name(self.walker), self.first, self.first + len(self.times))


def written(folder: Path, segments: list[Segment]) -> Window:
    """Frames with their time, age and a number of their own as `outcome`; the window has all, in order of starts."""
    for walker in {each.walker for each in segments}:
        writer = GroupWriter(folder / walker_name(walker))
        for number, each in enumerate(each for each in segments if each.walker == walker):
            for place, time in enumerate(each.times):
                age = each.age - (place < len(each.times) - 1)
                writer.append(FRAME, {"time": time, "age": float(age), "outcome": 1000.0 * walker + each.first + place})
            parent = (each.parent.walker, each.parent.first + each.row) if each.parent else (-1, -1)
            row = {
                "number": number, "start": segments.index(each), "parent_walker": parent[0], "parent_row": parent[1],
                "first_row": each.first, "end_row": each.first + len(each.times), "ended": each.ended,
                "exact": each.exact, "conditions": each.conditions, "state_bytes": 7 * each.state,
            }  # fmt: skip
            writer.append(SEGMENT, {"segments": np.array([row.get(name, -1) for name in SEGMENT_FIELDS])})
        writer.close()
    return Window(Frames(folder), [replace(each.span, weight=each.weight) for each in segments])


@st.composite
def runs(draw: st.DrawFn) -> list[Segment]:
    """Segments of three walkers that go on from any earlier frame, exactly or not; split, cut short, uneven in time."""
    segments, rows = list[Segment](), [0, 0, 0]
    for number in range(draw(st.integers(1, 14))):
        walker = draw(st.integers(0, 2))
        steps = draw(st.lists(st.sampled_from([0.5, 1.0, 1.0, 2.0]), min_size=1, max_size=4))
        parent = draw(st.sampled_from([None, *segments]))
        last = len(parent.times) - 1 if parent else -1
        row = draw(st.sampled_from([last, last, 0])) if parent else -1
        new = Segment(
            walker, rows[walker], np.cumsum(steps).tolist(), parent, row,
            parent is not None and draw(st.integers(0, 4)) > 0, draw(st.integers(0, 5)) > 0,
            draw(st.sampled_from([5, 5, 5, 6])), draw(st.sampled_from([0, 0, 0, 1])), weight=1.0 + number,
        )  # fmt: skip
        if new.before and new.before.age < WINDOW:  # of one whose window is over a new window begins
            new.age = new.before.age + 1
        segments.append(new)
        rows[walker] += len(steps)
    return segments


def line(segment: Segment, *, of_window: bool) -> list[tuple[Segment, int]]:
    """All frames of a lineage, from the first one on."""
    own = [(segment, place) for place in range(len(segment.times))]
    before = segment.before
    if before is None or (segment.age == 1 if of_window else not before.state):
        return own
    return line(before, of_window=of_window) + own


@settings(max_examples=80)
@given(segments=runs(), lag=st.integers(1, 6), time=st.sampled_from([0.5, 1.0, 2.0, 3.5]))
def test_lagged_pairs_and_fates_are_those_of_a_walk_along_each_lineage(
    tmp_path_factory: pytest.TempPathFactory, segments: list[Segment], lag: int, time: float
) -> None:
    window = written(tmp_path_factory.mktemp("run") / "frames.zarr", segments)
    row = {
        (id(each), place): at for at, (each, place) in enumerate((s, p) for s in segments for p in range(len(s.times)))
    }
    by_frames, by_time, fates = (
        list[tuple[int, int]](),
        list[tuple[int, int]](),
        list[tuple[int, float, float, int, float]](),
    )
    for segment in segments:
        lineage = line(segment, of_window=False)
        rows = [row[id(each), place] for each, place in lineage]
        own = len(segment.times)
        came = np.cumsum([each.times[place] - (each.times[place - 1] if place else 0) for each, place in lineage])
        for late in range(len(rows) - own, len(rows)):
            by_frames += [(rows[late - lag], rows[late])] if late >= lag else []
            by_time += [
                (rows[early], rows[late]) for early in range(late) if abs(came[late] - came[early] - time) < 1e-9
            ]
        if segment.age >= WINDOW and segment.ended == 0:
            way = line(segment, of_window=True)[:-1]
            end = window["outcome"][row[id(segment), own - 1]]
            first = row[id(way[0][0]), 0] if way else -1
            fates += [
                (at := row[id(each), place], end, segment.weight, first, WINDOW - window["age"][at])
                for each, place in way
            ]
    assert sorted(map(tuple, window.lagged(lag).tolist())) == sorted(by_frames)
    assert sorted(map(tuple, window.lagged(time=time).tolist())) == sorted(by_time)
    fate = window.fate("outcome", window=WINDOW)
    roots = {int(root): int(rows.min()) for root in set(fate.root.tolist()) for rows in [fate.rows[fate.root == root]]}
    found = zip(fate.rows, fate.outcome, fate.weight, (roots[int(root)] for root in fate.root), fate.lead, strict=True)
    assert sorted(map(tuple, ((int(a), float(b), float(c), d, float(e)) for a, b, c, d, e in found))) == sorted(fates)


def test_a_member_that_was_killed_has_no_fate_and_brothers_have_one_root(tmp_path: Path) -> None:
    first = Segment(0, 0, [1.0], exact=False)
    killed, split = (Segment(walker, row, [1.0], first, 0, age=2) for walker, row in ((0, 1), (1, 0)))
    ends = [Segment(1, 1, [1.0], split, 0, age=3, weight=0.25), Segment(2, 0, [1.0], split, 0, age=3, weight=0.75)]
    pruned = Segment(0, 2, [1.0], killed, 0, age=3, ended=1)
    other = Segment(2, 1, [1.0], exact=False)
    window = written(tmp_path / "frames.zarr", [first, killed, split, *ends, pruned, other])
    fate = window.fate("outcome", window=WINDOW)
    assert fate.rows.tolist() == [0, 2, 0, 2]
    assert fate.outcome.tolist() == [1001.0, 1001.0, 2000.0, 2000.0]
    assert fate.weight.tolist() == [0.25, 0.25, 0.75, 0.75]
    assert window["outcome"][fate.last].tolist() == fate.outcome.tolist()
    assert fate.lead.tolist() == [2, 1, 2, 1]
    assert len(set(fate.root.tolist())) == 1
    any_age = window.fate("outcome", window=range(2, WINDOW + 1))
    assert (any_age.rows[any_age.lead == 1].tolist(), any_age.outcome.tolist()[:2]) == ([0, 0, 2, 2], [1.0, 1000.0])
    late = Window(window.frames, window.spans[2:])  # without the beginning: brothers stay brothers
    assert set(late.fate("outcome", window=WINDOW).root.tolist()) == set(fate.root.tolist())
    assert late.fate("outcome", window=WINDOW).weight.tolist() == [0.25, 0.75]


def test_a_window_that_goes_on_where_another_ended_has_first_members_of_its_own(tmp_path: Path) -> None:
    segments = [Segment(0, 0, [1.0], exact=False)]
    for row in range(1, 2 * WINDOW):
        segments.append(Segment(0, row, [1.0], segments[-1], 0, age=1 + row % WINDOW))
    fate = written(tmp_path / "frames.zarr", segments).fate("outcome", window=WINDOW)
    assert fate.rows.tolist() == [0, 1, 3, 4]
    assert fate.outcome.tolist() == [2, 2, 5, 5]
    assert len(set(fate.root[:2].tolist())) == len(set(fate.root[2:].tolist())) == 1
    assert fate.root[0] != fate.root[2]


def test_an_end_of_the_window_inside_of_a_segment_is_no_end_that_another_goes_on_from(tmp_path: Path) -> None:
    parent = Segment(0, 0, [1.0, 2.0])
    frames = written(tmp_path / "frames.zarr", [parent, Segment(1, 0, [1.0], parent, 0)]).frames
    assert Window(frames, [Span("w0", 0, 1), Span("w1", 0, 1)]).lagged(1).shape == (0, 2)


def test_a_table_of_before_joins_nothing(tmp_path: Path) -> None:
    """It does not say what goes on exactly."""
    writer = GroupWriter(tmp_path / "w0")
    for row in range(6):
        writer.append(FRAME, {"time": 1.0 + row % 3})
        if row % 3 == 2:
            writer.append(
                SEGMENT, {"segments": np.array([row // 3, 0, -1 + row // 3, 2, 0, 0, row - 2, row + 1, 0, 0, 0])}
            )
    writer.close()
    for spans in ([Span("w0", 0, 6)], [Span("w0", 0, 3), Span("w0", 3, 6)]):
        assert Window(Frames(tmp_path), spans).lagged(1).tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
        assert Window(Frames(tmp_path), spans).lagged(time=2.0).tolist() == [[0, 2], [3, 5]]


def test_a_lag_is_given_once(tmp_path: Path) -> None:
    window = written(tmp_path / "frames.zarr", [Segment(0, 0, [1.0, 2.0])])
    for wrong in ({}, {"lag": 1, "time": 1.0}, {"time": 0.0}, {"time": np.nan}):
        with pytest.raises(BadValue):
            window.lagged(**wrong)  # type: ignore[arg-type]
