"""kill -9 of a driver, or of all its processes, costs at most what was not committed, and no decision."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from steersman.data.overview import overview
from steersman.data.verify import verify
from steersman.engine import campaign, orphans
from steersman.executors import steady
from steersman.journal import file as journal
from steersman.journal import lock, published
from steersman.journal.records import Began, Ended, FrameId, Note, Published, Start, words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.store import Span, Window
from steersman.system.errors import BadValue
from tests.engine.conftest import (
    WriteWorkflow,
    await_record,
    completed,
    finished,
    opened,
    resumed,
    servers_brought_back,
    started,
    steersman,
)
from tests.engine.test_merger import merged_all

pytestmark = pytest.mark.slow
Words = tuple[object, ...]
NO_BUDGET = 10**8  # frames: the run ends when it is told to, however fast this machine is


def decisions(directory: RunDirectory) -> list[object]:
    """Every choice, its frames told by start and place within the segment: which walker ran it does not matter."""
    state = State(journal.read(directory.journal))

    def frame(parent: FrameId | list[int] | None) -> object:
        if parent is None:
            return None
        segment = published.segment_of(state, parent[0], parent[1])
        assert segment is not None
        return segment.start, parent[1] - segment.first

    starts = {r.start: r.seed for r in journal.read(directory.journal, Start)}
    lines = [json.loads(line) for line in directory.decisions.read_text().splitlines()]
    return [
        (
            line["start"], starts[line["start"]], line["policy"], line["reason"], line["model"], line["candidates"],
            frame(line["frame"]), [(frame(each["frame"]), each["reason"]) for each in line["refused"]],
        )
        for line in lines
    ]  # fmt: skip


def frames(directory: RunDirectory) -> dict[int, bytes]:
    """Frames of every start that count."""
    state = State(journal.read(directory.journal))
    found = {}
    for segment in state.segments:
        end = state.walkers[segment.walker].rows_end(segment)
        if segment.counts and end > segment.first:
            span = Span(f"w{segment.walker}", segment.first, end)
            found[segment.start] = Window(directory.frames, [span])["position"].tobytes()
    return found


def weights(directory: RunDirectory) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.path.glob("models/*/weights.safetensors"))]


DRAWING = Path(__file__).with_name("drawing.py")
ROUNDS: Words = ("run", DRAWING, "--rounds", "--seed", 3, "--set", "frames=1200", "--set", "train_every=400",
                 "--set", "barrier_kT=30")  # fmt: skip


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    cwd = tmp_path_factory.mktemp("unbroken")
    return completed(*ROUNDS[1:], cwd=cwd, code=None)[0]


def test_an_interrupted_and_resumed_run_decides_like_an_unbroken_one(
    unbroken: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit from the seed: choices, reasons, frames, weights, whatever the stages draw from their processes. The
    driver is killed, each of its bus's three servers, and everything.

    Its frames come by way of a node's own storage, its messages by three servers, and its scores from a thread of the
    driver; those of the unbroken one do not.
    """
    run = tmp_path / "run"
    monkeypatch.setenv("NODE", str(tmp_path / "node"))
    site = "bus_servers: 3\nsimulation: {scratch: $NODE/frames}\ntraining: {workers: 2}\nscoring: {threads: 1}\n"
    (tmp_path / "site.yaml").write_text(site)
    driver = started(*ROUNDS, "--site", "site.yaml", "--run-dir", run, cwd=tmp_path)
    await_record(run, lambda state: state.frames >= 150)
    driver.kill()
    driver.wait()
    driver = started("resume", run, cwd=tmp_path)
    await_record(run, lambda state: state.frames >= 300, driver=driver)
    for killed, server in enumerate(orphans.servers(run), 1):
        orphans.end([server])
        await_record(run, lambda state, n=killed: servers_brought_back(state) == n, driver=driver)
    await_record(run, lambda state: state.frames >= 650, driver=driver)
    for process in [psutil.Process(driver.pid), *orphans.of_run(run)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    driver.wait()
    assert steady.left(run), "what would have removed it is killed, too"
    assert started("resume", run, cwd=tmp_path).wait(timeout=200) == 0
    assert steady.left(run) == []
    directory, state = opened(run)
    assert len(state.sessions) == 3
    assert decisions(directory) == decisions(unbroken)
    assert frames(directory) == frames(unbroken)
    assert weights(directory) == weights(unbroken)


def test_an_event_is_known_once_it_was_heard(unbroken: RunDirectory) -> None:
    """A killed server may hand out again what was taken in its last second; it must not count twice."""
    state = State()
    for record in journal.read(unbroken.journal):
        if isinstance(record, Began | Ended | Published):
            assert state.walkers[record.walker].expects(record)
            assert not state.walkers[record.walker].knows(record)
            state.apply(record)
            assert state.walkers[record.walker].knows(record)
        else:
            state.apply(record)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State, float]:
    """An asynchronous run whose driver was killed; and how long its processes outlived it."""
    cwd = tmp_path_factory.mktemp("killed")
    run = cwd / "run"
    driver = started("run", "double_well", "--seed", 1, "--set", "barrier_kT=30",
                     "--set", f"frames={NO_BUDGET}", "--run-dir", run, cwd=cwd)  # fmt: skip
    await_record(run, lambda state: state.frames >= 400)
    refused = steersman("resume", run, cwd=cwd)
    assert refused.returncode == 4
    assert f"process {driver.pid} on" in refused.stderr
    driver.kill()
    driver.wait()
    died = time.monotonic()
    while orphans.of_run(run):
        assert time.monotonic() - died < 200, orphans.of_run(run)
        time.sleep(0.05)
    return run, opened(run)[1], time.monotonic() - died


def test_another_seed_goes_another_way(unbroken: RunDirectory, killed: tuple[Path, State, float]) -> None:
    one, other = frames(unbroken), frames(RunDirectory(killed[0]))
    common = one.keys() & other.keys()
    assert common
    assert all(one[start][:8] != other[start][:8] for start in common), "the first coordinate"


def test_nothing_outlives_its_driver(killed: tuple[Path, State, float]) -> None:
    """The warden needs a moment to look through the processes of this machine, which may be busy."""
    assert killed[2] < 200


def test_a_dead_driver_holds_nothing_and_hears_nothing(killed: tuple[Path, State, float]) -> None:
    holder = lock.owner(killed[0])
    assert holder is not None
    assert holder.why_gone
    silent = steersman("tell", killed[0], "pause", cwd=killed[0])
    assert silent.returncode == 2
    assert "steersman resume" in silent.stderr


@pytest.fixture(scope="module")
def interrupted(killed: tuple[Path, State, float]) -> tuple[RunDirectory, State, dict[str, int]]:
    """It goes on until Ctrl-C; and the rows that were stored before it went on."""
    run, before, _ = killed
    directory = RunDirectory(run)
    stored = {walker: directory.frames.count(walker) for walker in directory.frames.walkers()}
    driver = started("resume", run, cwd=run)
    await_record(run, lambda state: state.frames >= before.frames + 500, driver=driver)
    os.killpg(driver.pid, signal.SIGINT)  # to all of its processes, as a terminal does
    assert driver.wait(timeout=200) == 130
    return *opened(run), stored


def test_ctrl_c_ends_the_segments(interrupted: tuple[RunDirectory, State, dict[str, int]]) -> None:
    directory, state, stored = interrupted
    assert state.end is not None
    assert f"`steersman resume {directory.path.resolve()}`" in str(overview(state, directory.path).reason)
    assert not any("Parsl is restarted" in words(note) for note in state.notes)
    assert not any(walker.alive for walker in state.walkers.values())
    new = [walker for walker in state.walkers.values() if f"w{walker.number}" not in stored]
    assert all(segment.how in ("finished", "stopped") for walker in new for segment in walker.segments)
    assert state.frames == sum(directory.frames.count(walker) for walker in directory.frames.walkers())


def test_what_was_killed_and_interrupted_goes_on_and_nothing_that_was_committed_is_lost(
    interrupted: tuple[RunDirectory, State, dict[str, int]], tmp_path: Path
) -> None:
    """Also in a copy of it that goes on at the same time: neither hears, takes or ends what is the other's."""
    directory, before, stored = interrupted
    enough = before.frames + 500
    copy = shutil.copytree(directory.path, tmp_path / "copy", symlinks=True)
    held = frames(directory)
    driver = started("resume", copy, cwd=tmp_path)
    original = resumed(directory.path, until=lambda state: state.frames >= enough)
    await_record(copy, lambda state: state.frames > enough and state.walkers.keys() - before.walkers, driver=driver)
    for run, state in (directory, original), (RunDirectory(copy), finished(driver, copy, until=lambda state: True)):
        assert state.end is not None
        assert state.end.outcome == "finished"
        notes = [record.text for record in journal.read(run.journal, Note)]
        assert any("held the lock" in text for text in notes)
        for walker, rows in stored.items():
            assert state.walkers[int(walker[1:])].frames == rows == run.frames.count(walker)
        assert sum(span.rows for span in published.spans(state)) == state.frames == state.scored
        counted = Counter(segment.start for segment in state.segments if segment.counts)
        assert set(counted.values()) == {1}, "no start counts twice"
        assert held.items() <= frames(run).items()
        assert verify(run) == []
        assert lock.owner(run.path) is None


def test_a_finished_run_says_so(interrupted: tuple[RunDirectory, State, dict[str, int]]) -> None:
    run = interrupted[0].path
    size = (run / "journal.jsonl").stat().st_size
    (run / "report.html").unlink(missing_ok=True)
    again = steersman("resume", run, "--report", cwd=run)
    assert again.returncode == 0
    assert "is finished" in again.stderr
    assert (run / "report.html").exists(), "one that Ctrl-C cut short is drawn now"
    assert (run / "journal.jsonl").stat().st_size == size


def test_a_finished_run_goes_on_with_a_new_budget(interrupted: tuple[RunDirectory, State, dict[str, int]]) -> None:
    """Also when the groups of the walkers that made its frames were merged meanwhile."""
    directory, stored = interrupted[0], frames(interrupted[0])
    merged_all(directory)
    assert len(directory.frames.merged()) >= 1
    assert frames(RunDirectory(directory.path)) == stored
    before = opened(directory.path)[1]
    asked = ["--set", f"frames={before.frames + 100:.9e}", "--require-goal", "--workers", 1, "--walltime", "02:00:00"]
    done = steersman("resume", directory.path, *asked, cwd=directory.path)
    assert done.returncode == 3, done.stderr
    state = opened(directory.path)[1]
    assert state.end is not None
    assert state.end.outcome == "budget"
    assert state.frames >= before.frames + 100
    assert {walker.slot for walker in state.walkers.values() if walker.number >= before.next_walker} == {0}
    simulation = directory.site()["simulation"]
    assert (simulation["workers"], simulation["walltime_s"]) == (1, 7200)
    assert any("continues the run with site" in words(note) for note in journal.read(directory.journal, Note))
    assert verify(directory) == []


def test_a_run_in_rounds_keeps_its_slots(unbroken: RunDirectory) -> None:
    slots = opened(unbroken.path)[1].run.slots
    with pytest.raises(BadValue) as refused:
        campaign.resume(unbroken, site_changes={"simulation.workers": slots + 1})
    assert refused.value.name == "simulation.workers"


def test_a_second_ctrl_c_stops_at_once_and_leaves_a_run_to_go_on_with(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """Segments that do not hear that they are to stop: the first Ctrl-C waits for them, the second does not."""
    path = write_workflow("""
        import time
        wf = Workflow("deaf", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def simulate(p, start, out):
            for i in range(p.steps):
                time.sleep(0.05)
                out.append(x=float(i))
        """)
    run = tmp_path / "run"
    driver = started("run", path, "--set", "steps=2000", "--run-dir", run, cwd=tmp_path)
    await_record(run, lambda state: state.frames >= 20)
    os.kill(driver.pid, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        driver.wait(timeout=2)  # it waits for the segments
    before = opened(run)[1]
    os.kill(driver.pid, signal.SIGTERM)  # another one: of two alike a process that was stopped meanwhile sees one
    assert driver.wait(timeout=150) == 130
    assert not orphans.of_run(run)
    state = opened(run)[1]
    assert state.end is not None
    assert state.end.outcome == "interrupted"
    assert "at once" in state.end.reason
    resumed = started("resume", run, cwd=tmp_path)
    await_record(run, lambda state: state.frames > before.frames + 20)
    resumed.kill()
    resumed.wait()
