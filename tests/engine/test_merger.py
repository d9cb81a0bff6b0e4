"""Groups are merged beside the loop; whenever the driver is killed, the next one finds every frame, each once."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.data.history import History
from steersman.data.repair import cost, repair
from steersman.data.verify import Problem, verify
from steersman.engine.merger import GRACE_S, Merger, settle
from steersman.engine.reconcile import reconcile
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Damaged, Ended, Hired, Left, Merged, Published, Record, Start
from steersman.journal.run_directory import RunDirectory, create
from steersman.journal.state import State
from steersman.store import FRAME, SEGMENT, GroupWriter, Span, merge
from tests.store.test_merge import all_of, operations

ROWS = 3


def walked(recorder: Recorder, directory: RunDirectory, number: int) -> None:
    """One walker from beginning to end: one segment of three frames."""
    first: dict[str, Any] = {"walker": number, "segment": 0, "start": number, "first_row": 0}
    events: list[Record] = [
        Start(start=number, seed=7), Hired(walker=number, slot=0), Began(**first),
        Ended(**first, end_row=ROWS, how="finished"), Published(walker=number, frames=ROWS, segments=1),
        Left(walker=number, reason="its block ends"),
    ]  # fmt: skip
    writer = GroupWriter(directory.frames.path / f"w{number}", attributes={"running": [0, number, 0]})
    writer.extend(FRAME, {"x": 10 * number + np.arange(ROWS), "segment": np.zeros(ROWS, np.int32)})
    writer.append(SEGMENT, {"segments": np.array([0, number, -1, -1, 7, 0, 0, ROWS, 0])})
    writer.close()
    for event in events:
        recorder.record(event)


def run_of(path: Path, walkers: int) -> RunDirectory:
    directory = create(path, "run")
    recorder = opened(directory)
    for number in range(walkers):
        walked(recorder, directory, number)
    recorder.journal.close()
    return directory


def opened(directory: RunDirectory) -> Recorder:
    state = State()
    return Recorder(Journal(directory.journal, replay=state.apply), state)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def merged_all(directory: RunDirectory) -> None:
    """A session in which everything that can be merged is merged."""
    recorder, clock = opened(directory), Clock()
    merger = Merger(directory.frames, recorder, fan_in=2, quiet_s=0.0, clock=clock)
    for _ in range(20):
        merger.advance()
        merger._thread.submit(lambda: None).result()  # behind what it does
        clock.now += GRACE_S
    merger.close()
    recorder.journal.close()


def resumed(directory: RunDirectory) -> State:
    recorder = opened(directory)
    settle(recorder, directory.frames)
    assert reconcile(recorder, directory.frames, keep=True, cause="the test") == 0
    recorder.journal.close()
    return recorder.state


def problems(directory: RunDirectory) -> list[Problem]:
    return [each for each in verify(directory) if each.what == "frames"]


def test_walkers_that_have_ended_are_merged_until_few_groups_are_left(tmp_path: Path) -> None:
    directory = run_of(tmp_path, 7)
    before = all_of(directory.frames)
    merged_all(directory)
    assert {name for name in before if directory.frames.own(name)} == {"w6"}
    assert sorted(map(len, directory.frames.merged().values())) == [2, 4]
    assert all_of(RunDirectory(directory.path).frames) == before
    assert problems(directory) == []
    state = History(directory).state
    assert state.merged == {group: {int(name[1:]) for name in of} for group, of in directory.frames.merged().items()}
    assert state.frames == 7 * ROWS


def test_walkers_that_live_or_ended_just_now_stay_as_they_are(tmp_path: Path) -> None:
    directory = run_of(tmp_path, 4)
    recorder = opened(directory)
    for number in (4, 5):
        recorder.record(Hired(walker=number, slot=0))
    merger = Merger(directory.frames, recorder, fan_in=2, quiet_s=600.0)
    assert merger._ended() == []
    merger = Merger(directory.frames, recorder, fan_in=2, quiet_s=0.0)
    assert merger._ended() == ["w0", "w1", "w2", "w3"]
    merger.close()
    recorder.journal.close()


def test_what_was_merged_stays_for_a_while(tmp_path: Path) -> None:
    """Other machines may have listed the folder just before."""
    directory, clock = run_of(tmp_path, 2), Clock()
    recorder = opened(directory)
    merger = Merger(directory.frames, recorder, fan_in=2, quiet_s=0.0, clock=clock)
    for at, there in ((0, True), (GRACE_S - 1, True), (2 * GRACE_S, False)):
        clock.now = at
        for _ in range(2):
            merger.advance()
            merger._thread.submit(lambda: None).result()
        assert directory.frames.own("w0") == there
    merger.close()
    recorder.journal.close()


def test_verify_lets_any_program_see_the_frames_of_a_killed_run(tmp_path: Path) -> None:
    directory = run_of(tmp_path, 2)
    alone = directory.frames.path / "w1" / "x" / "zarr.json"
    rename(alone, f'"shape": [{ROWS}]', '"shape": [0]')
    assert problems(directory) == []
    assert f'"shape": [{ROWS}]' in alone.read_text()


def test_the_end_of_a_run_waits_for_no_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_of(tmp_path, 2)
    recorder = opened(directory)
    monkeypatch.setattr(merge, "_blocks", lambda arrays: iter(lambda: (0, 1), None))  # without end
    merger = Merger(directory.frames, recorder, fan_in=2, quiet_s=0.0)
    merger.advance()
    began = time.monotonic()
    merger.close()
    assert time.monotonic() - began < 5
    recorder.journal.close()
    monkeypatch.undo()
    assert {entry.name for entry in directory.frames.path.iterdir()} == {"w0", "w1", "zarr.json"}


@pytest.mark.slow
def test_readers_and_verify_see_every_frame_while_groups_are_merged(tmp_path: Path) -> None:
    directory = run_of(tmp_path, 8)
    before, reader = all_of(directory.frames), RunDirectory(directory.path).frames
    held = {name: reader.stored(name)["x"] for name in before}
    with Lock(directory.path).held(), ThreadPoolExecutor(1) as driver:
        driving = driver.submit(merged_all, RunDirectory(directory.path))
        while not driving.done():
            assert problems(directory) == []
            assert all_of(reader) == before
        driving.result()
    assert sorted(map(len, reader.merged().values())) == [8]
    assert all(
        array.read(0, ROWS).tolist() == reader.read("x", Span(name, 0, ROWS)).tolist() for name, array in held.items()
    )


@pytest.mark.slow
def test_whenever_the_driver_is_killed_the_next_one_finds_every_frame_once(tmp_path: Path) -> None:
    directory = run_of(tmp_path, 4)
    before = all_of(directory.frames)
    shutil.copytree(directory.path, tmp_path / "kept")
    total = operations(lambda: merged_all(RunDirectory(directory.path)))
    kinds = set[str]()
    for number in range(1, total, 17):
        shutil.rmtree(directory.path)
        shutil.copytree(tmp_path / "kept", directory.path)
        operations(lambda: merged_all(RunDirectory(directory.path)), kill_at=number)
        found = RunDirectory(directory.path)
        assert all_of(found.frames) == before, f"killed before operation {number} of {total}"
        unfinished = problems(found)
        kinds |= {each.where.rpartition("/")[2][0] for each in unfinished}
        assert all(each.number < 0 for each in unfinished), "no walker is damaged"
        state = resumed(found)
        assert problems(found) == []
        assert state.frames == 4 * ROWS
        merged_all(found)
        assert {entry.name for entry in found.frames.path.iterdir()} - {"zarr.json"} == {
            max(History(found).state.merged)
        }
        assert all_of(RunDirectory(directory.path).frames) == before
    assert kinds == {"m", "w"}, "it was killed while it wrote, and while it removed"


DAMAGES: dict[str, tuple[Callable[[Path], object], set[int]]] = {
    "a chunk": (lambda group: change(group / "x" / "c" / "1", 4), {2, 3}),
    "a lost shard": (lambda group: (group / "x" / "c" / "0").unlink(), {0, 1}),
    "the last shard": (lambda group: (group / "x" / "c" / "1").unlink(), {2, 3}),
    "whose frames they are": (lambda group: change(group / "walker" / "c" / "0", 4), {-1}),
    "whose they are, lost": (lambda group: (group / "walker" / "c" / "1").unlink(), {-1}),
    "a name in the table": (lambda group: rename(group / "zarr.json", '"w1":', '"x1":'), {1}),
    "metadata": (lambda group: (group / "x" / "zarr.json").write_text("{}"), {-1}),
    "the group": (lambda group: (group / "zarr.json").unlink(), {0, 1, 2, 3}),
}


def rename(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def change(shard: Path, at: int) -> None:
    data = bytearray(shard.read_bytes())
    data[at] ^= 0xFF
    shard.write_bytes(data)


@pytest.fixture
def merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """Four walkers in one group, two in each shard."""
    monkeypatch.setattr("steersman.store.column.CHUNK_ROWS", 2 * ROWS)
    monkeypatch.setattr("steersman.store.column.SHARD_ROWS", 2 * ROWS)
    directory = run_of(tmp_path, 4)
    merged_all(directory)
    return directory


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_in_a_merged_group_costs_the_walkers_that_it_concerns(merged: RunDirectory, what: str) -> None:
    do, concerned = DAMAGES[what]
    (group,) = merged.frames.merged()
    before = all_of(merged.frames)
    do(merged.frames.path / group)
    found = problems(RunDirectory(merged.path))
    assert {(each.where, each.number) for each in found} == {(f"frames.zarr/{group}", number) for number in concerned}
    lost = {number for number in concerned if number >= 0}
    assert cost(merged, found).startswith(f"{ROWS * len(lost):,} of {4 * ROWS:,} frames") == bool(lost)
    repair(merged, found)
    apart = all(each.segments for each in found)
    assert (merged.path / "aside" / "frames.zarr" / group).is_dir() != apart, "what can be read stays where it is"
    again = RunDirectory(merged.path)
    assert problems(again) == []
    whole = {f"w{number}": before[f"w{number}"] for number in range(4) if number not in concerned}
    if not apart:
        assert all_of(again.frames) == whole
    state = resumed(again)
    assert state.frames == ROWS * len(whole)
    assert {number for number, walker in state.walkers.items() if walker.damaged or walker.unreadable} == lost


def test_rows_that_are_of_another_walker_are_found(merged: RunDirectory) -> None:
    (group,) = merged.frames.merged()
    file = merged.frames.path / group / "zarr.json"
    file.write_text(file.read_text().replace('"frame": [3, 3]', '"frame": [6, 3]'))
    assert [each.number for each in problems(RunDirectory(merged.path))] == [1]


def test_a_merge_that_the_journal_lost_is_recorded_again(merged: RunDirectory) -> None:
    lines = merged.journal.read_bytes().splitlines(keepends=True)
    merged.journal.write_bytes(b"".join(line for line in lines if b'"kind":"merged"' not in line))
    assert problems(merged) == []
    state = resumed(merged)
    assert state.merged == {"m2": {0, 1, 2, 3}}
    assert state.next_merged == 3
    assert not any(isinstance(note, Damaged) for note in state.notes)
    assert Merged.format > Record.format
