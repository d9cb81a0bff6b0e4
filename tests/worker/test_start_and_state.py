"""What a segment is given: the frame and the state of its own start; and when its start is done with."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from steersman.bus import ALL, TupleSpace
from steersman.journal.records import FrameId, Start
from steersman.stages import start as of_segment
from steersman.stages.segment import Segment
from steersman.stages.start import LOOKED, NoFrame, WatchedMapping
from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, Frames, GroupWriter, merge, states
from steersman.worker.orders import EVENT, HANGS, plain, stop_name
from steersman.worker.publisher import PUBLISH_EVERY_S
from steersman.worker.walker import BLOCK_ENDS
from tests.worker.test_walker import events, run_orders, walker_of

Simulate = Callable[[Any, of_segment.Start, Segment], None]

FRAMES = 2  # so that the number of a segment is not the row of its last frame

GIVEN: list[dict[str, Any]] = [  # by the segments of a walker, one after another
    {"v": np.arange(3.0), "steps": 7, "checkpoint": b"short"},
    {},
    {"checkpoint": b"x" * 100_000},
    {"checkpoint": np.arange(99, dtype=np.uint8), "inside": np.array([True, False])},
    {"checkpoint": b""},
    {"v": np.zeros((0, 3), np.float32), "when": np.array("2026-01-01", "M8[s]"), "z": 1 + 2j},
]


def gives(given: list[dict[str, Any]]) -> Simulate:
    """Segments of `FRAMES` frames each, which give these states."""
    waiting = iter(given)

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        for _ in range(FRAMES):
            out.append(x=float(out.number))
        if state := next(waiting):
            out.state(**state)

    return simulate


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Names, dtypes, shapes and values; bytes are bytes."""
    return one.keys() == other.keys() and all(
        one[name] == other[name]
        if isinstance(one[name], bytes)
        else np.asarray(one[name]).dtype == other[name].dtype and np.array_equal(one[name], other[name])
        for name in one
    )


def orders_from(walker: int, segments: int, *, exact: bool = True) -> list[tuple[int, dict[Any, Any]]]:
    """From the last frame of each segment of `gives`."""
    parents = [FrameId(walker, FRAMES * (n + 1) - 1, n) for n in range(segments)]
    return [(n, plain(Start(start=n, seed=n, parent=parent, exact=exact))) for n, parent in enumerate(parents)]


@pytest.mark.parametrize("kept", ["as it is", "on the node first", "merged"])
def test_a_segment_is_given_exactly_what_its_own_parent_gave(kept: str, space: TupleSpace, tmp_path: Path) -> None:
    """Of many segments of a walker: variables, dtypes and sizes that change, and nothing of those that gave nothing."""
    frames = Frames(tmp_path / "frames")
    scratch = tmp_path / "node" if kept == "on the node first" else None
    starts = [(n, plain(Start(start=n, seed=n))) for n in range(len(GIVEN))]
    states = [GIVEN, GIVEN[::-1]]
    for number, each in enumerate(states):
        run_orders(space, tmp_path, gives(each), starts, number=number, scratch=scratch)
    if kept == "merged":
        merge.merge(frames, ["w0", "w1"], "m0")
        for name in ("w0", "w1"):
            merge.remove(frames, name)
    for walker, each in enumerate(states):
        got: list[of_segment.Start] = []

        def see(p: Any, start: of_segment.Start, out: Segment, got: list[of_segment.Start] = got) -> None:
            got.append(start)
            out.append(x=start.frame["x"])

        run_orders(space, tmp_path, see, orders_from(walker, len(each)), number=2 + walker)
        assert [float(start.frame["x"]) for start in got] == list(range(len(each)))
        assert all(same(given, start.state) for given, start in zip(each, got, strict=True))
    if kept == "as it is":
        said = [each.get("state", True) for each in events(space, "ended")]
        assert said[: len(GIVEN)] == [bool(given) for given in GIVEN]


def test_a_segment_that_is_not_its_exact_continuation_is_given_no_state(space: TupleSpace, tmp_path: Path) -> None:
    run_orders(space, tmp_path, gives(GIVEN[:1]), [(0, plain(Start(start=0, seed=0)))])
    got: list[Any] = []
    run_orders(space, tmp_path, lambda p, start, out: got.append(start.state), orders_from(0, 1, exact=False), number=1)
    assert got == [{}]


def test_a_state_is_that_of_the_moment_in_which_it_was_given(space: TupleSpace, tmp_path: Path) -> None:
    """An integrator works in place, and a later frame needs no state of its own."""

    def drift(p: Any, start: of_segment.Start, out: Segment) -> None:
        v, raw = np.zeros(1), bytearray(1)
        out.state(early=v)
        for step in range(5):
            v += 1
            raw[0] += 1
            out.append(time=float(step), v=v)
            out.state(v=v, raw=raw)
        v += 100
        raw[0] += 100

    run_orders(space, tmp_path, drift, [(0, plain(Start(start=0, seed=0)))])
    assert same(Frames(tmp_path / "frames").state("w0", 0), {"v": np.array([5.0]), "raw": b"\x05"})


def test_states_of_older_runs_are_read(tmp_path: Path) -> None:
    """Each variable of a state was one along the ended segments, and their table had nine columns; later eleven."""
    with_table = GroupWriter(tmp_path / "w0")
    for number in range(2):
        with_table.append(FRAME, {"x": 1.0})
        with_table.append(SEGMENT, {"segments": np.full(9, number), "v": np.full(3, number, np.float32)})
    with_table.close()
    frames = Frames(tmp_path)
    assert same(frames.state("w0", 1), {"v": np.ones(3, np.float32)})
    assert frames.read_table("w0").tolist() == [[n] * 9 + [-1] * (len(SEGMENT_FIELDS) - 9) for n in (0, 1)]
    later, state = GroupWriter(tmp_path / "w1"), states.packed({"v": np.ones(3)})
    row = later.extend(states.RESTART, {states.RESTART_STATES: states.as_rows(state)})
    later.append(SEGMENT, {"segments": np.array([0] * 9 + [row, len(state)])})
    later.close()
    assert same(frames.state("w1", 0), {"v": np.ones(3)})


LOOKS: dict[str, tuple[Callable[[Any], object], bool]] = {
    "not at all": (lambda frame: None, False),
    "only held": (lambda frame: [frame], False),
    "get": (lambda frame: frame.get("x", 0.0), True),
    "in": (lambda frame: "x" in frame, True),
    "bool": (lambda frame: bool(frame), True),
    "dict": (lambda frame: dict(frame), True),
    "by another process": (lambda frame: pickle.loads(pickle.dumps(frame)).get("x"), True),
}


@pytest.mark.parametrize(("look", "looks"), LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("frame", [NoFrame(), {"x": np.ones(1)}], ids=["prepared", "frame"])
def test_any_look_at_a_frame_is_seen(look: Callable[[Any], object], looks: bool, frame: Any) -> None:
    said: list[bool] = []
    watched = WatchedMapping(frame, lambda: said.append(True))
    look(watched)
    assert (not watched.unread, bool(said)) == (looks, looks)


@pytest.mark.parametrize(("looks", "said"), [(True, True), (False, False)])
@pytest.mark.parametrize("first", [True, False], ids=["at the first", "at a frame without a state"])
def test_a_walker_says_whether_its_simulation_looks_at_frames(
    looks: bool, said: bool, first: bool, space: TupleSpace, tmp_path: Path
) -> None:
    """With the first frames that it publishes, and in its group, where it is found when the walker is lost."""
    run_orders(space, tmp_path, gives(GIVEN[:1]), [(0, plain(Start(start=0, seed=0)))])
    events(space, "frames")

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        if looks:
            start.frame.get("x")
        out.append(x=1.0)

    orders = [(0, plain(Start(start=0, seed=0)))] if first else orders_from(0, 1, exact=False)
    run_orders(space, tmp_path, simulate, orders, number=1)
    assert [each["reads"] for each in events(space, "frames") if "reads" in each] == [said]
    attributes = Frames(tmp_path / "frames").attributes("w1")
    assert attributes["unread_from"] == (LOOKED if looks else 0)
    assert of_segment.looked(attributes, 1) == said
    assert of_segment.looked(attributes | {"unread_from": 1}, 1) is None, "it has made no frame yet"


def test_a_segment_that_has_a_state_says_nothing_of_looks(space: TupleSpace, tmp_path: Path) -> None:
    """It may look at its frame for what is not in the state: that does not say what it would do without."""
    run_orders(space, tmp_path, gives(GIVEN[:1]), [(0, plain(Start(start=0, seed=0)))])
    events(space, "frames")
    run_orders(space, tmp_path, lambda p, start, out: out.append(x=start.frame["x"]), orders_from(0, 1), number=1)
    assert [each for each in events(space, "frames") if "reads" in each] == []


def test_a_segment_longer_than_three_leases_is_delivered_once(space: TupleSpace, tmp_path: Path) -> None:
    """Another walker waits for starts all the while."""
    lease_s, runs = 0.8, list[int]()

    def long(p: Any, start: of_segment.Start, out: Segment) -> None:
        runs.append(out.number)
        until = time.monotonic() + (3.5 * lease_s if len(runs) == 1 else 0)
        while time.monotonic() < until:
            time.sleep(0.05)
        out.append(x=1.0)

    walkers = [Thread(target=walker_of(space, tmp_path, long, number=n, lease_s=lease_s).run) for n in range(2)]
    space.put("bag", 0, plain(Start(start=0, seed=0)))
    for walker in walkers:
        walker.start()
    space.take(EVENT, "ended", dict, timeout_s=60)
    space.put_many([("bag", -1, {"end": True})] * 2)
    for walker in walkers:
        walker.join()
    assert len(runs) == 1
    assert space.count("bag", int, dict) == 0


def test_a_start_is_done_with_only_when_its_frames_can_be_read(
    space: TupleSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state, too: whoever hears of it can go on from there. Frames are moved from the node's disk now and then."""
    frames, seen, acknowledge = Frames(tmp_path / "frames"), list[tuple[int, int]](), space.ack

    def ack(taken: Any) -> None:
        for _, number, _ in taken if isinstance(taken, list) else []:  # else it is the word to go home
            state = frames.state("w0", number) if frames.rows("w0", SEGMENT) > number else {}
            seen.append((frames.count("w0"), len(state)))
        acknowledge(taken)

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        out.append(x=1.0)
        out.state(**GIVEN[0])
        time.sleep(1.5 * PUBLISH_EVERY_S)  # so that it is published before its end, and again later

    monkeypatch.setattr(space, "ack", ack)
    orders = [(n, plain(Start(start=n, seed=n))) for n in range(3)]
    run_orders(space, tmp_path, simulate, orders, scratch=tmp_path / "node")
    assert len(seen) == 3
    assert all(read > number and state == len(GIVEN[0]) for number, (read, state) in enumerate(seen))


def test_out_stopped_hears(space: TupleSpace, tmp_path: Path) -> None:
    """A segment that is asked to stop ends as stopped, the next one of its walker runs to its end."""

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        if out.number == 0:
            space.put(stop_name(out.name), out.name)
        until = time.monotonic() + (30 if out.number == 0 else 0.3)
        while not out.stopped and time.monotonic() < until:
            pass
        out.append(x=1.0)

    run_orders(space, tmp_path, simulate, [(n, plain(Start(start=n, seed=n))) for n in range(2)])
    assert [each["how"] for each in events(space, "ended")] == ["stopped", "finished"]
    assert not space.take_many_nowait(stop_name("w0.0"), str, n=ALL)


def test_what_never_looks_is_ended_at_a_frame_long_after_it_was_asked(
    space: TupleSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames count; its state may be of an earlier frame. One that ends by itself before that has finished."""
    monkeypatch.setattr("steersman.stages.segment.PATIENCE_S", 0.3)

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        space.put(stop_name(out.name), out.name)
        while out.number == 0 or out.frames < 3:
            out.state(x=1.0)
            out.append(x=1.0)

    run_orders(space, tmp_path, simulate, [(n, plain(Start(start=n, seed=n))) for n in range(2)])
    first, second = events(space, "ended")
    assert [(each["how"], each.get("state", True)) for each in (first, second)] == [
        ("stopped", False),
        ("finished", True),
    ]
    assert "cause" not in first
    assert first["end_row"] > 3
    assert second["end_row"] - first["end_row"] == 3


def test_what_hung_has_failed_unless_it_made_a_frame_meanwhile(space: TupleSpace, tmp_path: Path) -> None:
    """A program that waits for ever is ended like one that is stopped, but its start is not to be gone on from."""

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        out.append(x=1.0)
        space.put(HANGS, out.name, out.first_row + 1, "it is silent")
        space.put(stop_name(out.name), out.name)
        if out.number == 1:
            out.append(x=2.0)
        while not out.stopped:
            pass

    run_orders(space, tmp_path, simulate, [(n, plain(Start(start=n, seed=n))) for n in range(2)])
    assert [(each["how"], each.get("cause", "")) for each in events(space, "ended")] == [
        ("failed", "it is silent"), ("stopped", ""),
    ]  # fmt: skip


def test_the_table_says_where_each_segment_began_and_with_what(space: TupleSpace, tmp_path: Path) -> None:
    """And the events say the same; a segment is given the seed of its start."""
    run_orders(space, tmp_path, gives(GIVEN[:3]), [(n, plain(Start(start=n, seed=n))) for n in range(3)])
    events(space, "ended")
    seeds: list[int] = []

    def simulate(p: Any, start: of_segment.Start, out: Segment) -> None:
        seeds.append(out.seed)
        for _ in range(len(seeds)):
            out.append(x=start.frame["x"])

    parents = {7: FrameId(0, 5, 2), 4: None, 9: FrameId(0, 1, 0)}
    orders = [Start(start=n, seed=2**40 + n, parent=parent, model=n) for n, parent in parents.items()]
    run_orders(space, tmp_path, simulate, [(each.start, plain(each)) for each in orders], number=5)
    table = [
        dict(zip(SEGMENT_FIELDS, row, strict=True)) for row in Frames(tmp_path / "frames").read_table("w5").tolist()
    ]
    assert seeds == [each["seed"] for each in table] == [each.seed for each in orders]
    assert [each["start"] for each in table] == [each["model"] for each in table] == list(parents)
    assert [(each["parent_walker"], each["parent_row"]) for each in table] == [(0, 5), (-1, -1), (0, 1)]
    rows = [(0, 1), (1, 1), (1, 4)]  # the second one failed: without a frame, it has none to begin at
    assert [(each["first_row"], each["end_row"]) for each in table] == rows
    ended = events(space, "ended")
    assert [(each["first_row"], each["end_row"]) for each in ended] == rows
    assert [each["how"] for each in ended] == ["finished", "failed", "finished"]


def test_a_segment_that_can_make_no_frame_before_its_block_ends_does_not_begin(
    space: TupleSpace, tmp_path: Path
) -> None:
    """So much as the longest time between two frames so far must be left. Its start stays for another walker."""
    space.put_many([("bag", 0, plain(Start(start=0, seed=0))), ("bag", -1, {"end": True})])
    place = {"block_ends": time.time() + 1000, "node": "here", "pid": 1, "pool": ""}
    walker = walker_of(space, tmp_path, gives(GIVEN), place=place, margin_s=100.0)
    walker._longest_s = 950.0
    assert walker.run() == BLOCK_ENDS
    assert space.count("bag", int, dict) == 2
