"""The law of lost frames: what cannot be read costs the segments that it is of, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.data.history import History
from steersman.data.repair import cost, repair
from steersman.data.verify import unreadable_segments, verify
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.file import Journal
from steersman.journal.records import (
    Began,
    Damaged,
    End,
    Ended,
    FrameId,
    Hired,
    Left,
    Merged,
    Published,
    Record,
    Run,
    Session,
    Start,
)
from steersman.journal.run_directory import RunDirectory, create
from steersman.store import FRAME, RESTART, RESTART_STATES, SEGMENT, DamagedShard, GroupWriter, Span, Window, merge
from steersman.store.states import as_rows, packed

CHUNK, SHARD = 2, 4  # rows
LENGTHS = {0: [1, 3, 2, 4], 1: [5, 1], 2: [2, 2, 2, 2]}  # frames of the segments of each walker


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steersman.store.column.CHUNK_ROWS", CHUNK)
    monkeypatch.setattr("steersman.store.column.SHARD_ROWS", SHARD)


def walked(journal: Journal, directory: RunDirectory, number: int, lengths: list[int], first_start: int) -> None:
    """One walker from beginning to end; its last two segments leave a state."""
    writer = GroupWriter(directory.frames.path / f"w{number}")
    events: list[Record] = [Hired(walker=number, slot=0)]
    row = 0
    for segment, length in enumerate(lengths):
        start, end = first_start + segment, row + length
        data = packed({"v": np.arange(3.0)}) if segment >= len(lengths) - 2 else b""
        at = writer.rows.get(RESTART, 0)
        values = 100.0 * number + np.arange(row, end)
        writer.extend(FRAME, {"x": values, "time": np.arange(1.0, length + 1), "segment": np.full(length, segment)})
        if data:
            writer.extend(RESTART, {RESTART_STATES: as_rows(data)})
        fields = [segment, start, -1, -1, 7, 0, row, end, 0, at if data else -1, len(data)]
        writer.append(SEGMENT, {"segments": np.array(fields)})
        made: dict[str, Any] = {"walker": number, "segment": segment, "start": start, "first_row": row}
        ended = Ended(**made, end_row=end, how="finished", simulated=float(length), state=bool(data))
        events += [Start(start=start, seed=7), Began(**made), ended]
        row = end
    writer.close()
    published_all = Published(walker=number, frames=row, segments=len(lengths))
    journal.append(*events, published_all, Left(walker=number, reason="its block ends"))


@pytest.fixture(params=[False, True], ids=["own", "merged"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> RunDirectory:
    directory = create(tmp_path, "run")
    directory.settings_file.write_text("{workflow: x, seed: 1, rounds: false, params: {}, site: {}}")
    directory.workflow.touch()
    journal, start = Journal(directory.journal), 0
    journal.append(Run(workflow="x", seed=1, slots=1))
    for number, lengths in LENGTHS.items():
        walked(journal, directory, number, lengths, start)
        start += len(lengths)
    if request.param:
        merge.merge(directory.frames, [f"w{number}" for number in LENGTHS], "m0")
        journal.append(Merged(group="m0", walkers=tuple(LENGTHS)))
        for number in LENGTHS:
            merge.remove(directory.frames, f"w{number}")
    journal.close()
    return directory


def test_a_pause_stays_one_where_the_line_of_the_session_after_it_is_lost(made: RunDirectory) -> None:
    story = list(journal.read(made.journal))
    ended = story[-1].t + 5
    pause = [End(t=ended, outcome="interrupted", reason=""), Session(t=ended + 3600, host="", pid=1, after=ended)]
    later = [Hired(t=ended + 3601, walker=2, slot=0), End(t=ended + 3700, outcome="budget", reason="")]
    journal.rewrite(made.journal, [*story, *pause, *later])
    hours = History(made).overview().hours
    written = made.journal.read_bytes()
    made.journal.write_bytes(written.replace(b'"kind":"session"', b'"kind":"sassion"'))
    repair(made, verify(made))
    assert 0 <= hours - History(made).overview().hours <= 1.001 / 3600


def flip(shard: Path) -> None:
    data = bytearray(shard.read_bytes())
    data[3] ^= 0x10
    shard.write_bytes(data)


def truncate(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-5])


def lost_frames(directory: RunDirectory) -> set[str]:
    """The segments that counted and of which a frame or the state cannot be read now, each looked at alone."""
    found = set()
    for walker in History(directory).state.walkers.values():
        for each in walker.segments:
            try:
                for name in directory.frames.variables(walker.name):
                    directory.frames.read(name, Span(walker.name, each.first, walker.rows_end(each)))
                directory.frames.state(walker.name, each.number)
            except DamagedShard:
                found.add(each.name)
    return found


def counted(directory: RunDirectory) -> dict[str, bytes]:
    """The values of each segment that counts."""
    history, found = History(directory), {}
    for at in history.segments.made:
        walker, number = (int(of[at]) for of in (history.segments.walker, history.segments.number))
        span = Span(f"w{walker}", int(history.segments.first[at]), int(history.segments.end[at]))
        found[f"w{walker}.{number}"] = directory.frames.read("x", span).tobytes()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, flip, truncate])
@pytest.mark.parametrize("variable", ["x", RESTART_STATES])
def test_a_lost_shard_costs_its_segments_and_no_others(
    made: RunDirectory, damage: Callable[[Path], object], variable: str
) -> None:
    """Each shard of each walker, or of the merged group, one after another, each on what the one before left."""
    expected = counted(made)
    for shard in sorted(path for path in made.frames.path.glob(f"*/{variable}/c/**/*") if path.is_file()):
        damage(shard)
        directory = RunDirectory(made.path)
        lost = lost_frames(directory) & expected.keys()
        found = verify(directory)
        assert {f"w{each.number}.{n}" for each in found for n in each.segments} == lost
        state = History(directory).state
        gone = sum(len(expected[name]) // 8 for name in lost)
        assert cost(directory, found).startswith(f"{gone:,} of {state.frames:,} frames" if lost else "")
        repair(directory, found)
        directory = RunDirectory(made.path)
        expected = {name: values for name, values in expected.items() if name not in lost}
        assert verify(directory) == []
        assert counted(directory) == expected
        state = History(directory).state
        frames = sum(map(len, expected.values())) // 8
        assert (state.frames, state.simulated) == (frames, frames), "each frame is one unit of time"
        if spans := published.spans(state):
            read = Window(directory.frames, spans)["x"]
            assert read.tobytes() == b"".join(expected.values())
            assert np.isfinite(read).all()


def test_frames_that_are_lost_are_not_started_from(made: RunDirectory) -> None:
    """Starts that wait, and segments that are to go on, are given up with the frame; others stay."""
    journal = Journal(made.journal)
    for start, segment in ((20, 1), (21, 3)):
        journal.append(Start(start=start, seed=1, parent=FrameId(0, sum(LENGTHS[0][: segment + 1]) - 1, segment)))
    journal.append(Damaged(walker=0, segments=(1,), simulated=3.0, reason="lost"))
    journal.close()
    state = History(made).state
    assert {20, 21} & state.starts.keys() == {21}
    assert state.walkers[0].unreadable == {1}


@pytest.mark.slow
def test_a_table_that_claims_any_number_of_rows_ends(made: RunDirectory) -> None:
    for file in made.frames.path.glob("*/zarr.json"):
        file.write_text(file.read_text().replace('"shape": [', '"shape": [9999999'))
    for walker in History(made).state.walkers.values():
        if not made.frames.own(walker.name):
            assert unreadable_segments(made.frames, walker) == (), "the table says how many rows it has"
            continue
        with pytest.raises((DamagedShard, MemoryError)):
            unreadable_segments(made.frames, walker)


def test_a_walker_of_a_group_that_must_be_set_aside_is_lost_whole(made: RunDirectory) -> None:
    """Nothing can be copied out of it of a walker of which not all can be read; and the journal is mended first."""
    name = made.frames.group("w1")
    flip(made.frames.path / name / "x" / "c" / "0")
    (made.frames.path / name / "segment" / "zarr.json").write_text("{}")
    lines = made.journal.read_bytes().splitlines(keepends=True)
    made.journal.write_bytes(b"".join([*lines[:1], b"noise\n", *lines[1:]]))
    directory = RunDirectory(made.path)
    found = verify(directory)
    damaged = {each.number for each in found if each.segments}
    assert cost(directory, found)
    repair(directory, found)
    directory = RunDirectory(made.path)
    assert verify(directory) == []
    state = History(directory).state
    assert {number for number, walker in state.walkers.items() if walker.damaged} == damaged
    assert not any(walker.unreadable for walker in state.walkers.values())
    assert set(counted(directory)) == {
        each.name for number, walker in state.walkers.items() if number not in damaged for each in walker.segments
    }
