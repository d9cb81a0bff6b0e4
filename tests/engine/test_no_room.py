"""Resources run out: a clean stop with one clear message, and the run goes on when the cause is gone."""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from steersman.bus import Server, TupleSpace
from steersman.data.verify import verify
from steersman.engine import campaign
from steersman.engine.run import Campaign
from steersman.journal import lock
from steersman.journal.records import words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.system import node
from steersman.system.errors import EngineError
from tests.dashboard.kept import kept
from tests.engine.conftest import WriteWorkflow, await_record, opened, started, steersman

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_then_a_read_only_one_stops_the_run_cleanly_and_it_goes_on_when_there_is_room(
    small_disk: Path, write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """Frames of 160 KB: some 100 fit."""
    path = write_workflow("""
        import time
        wf = Workflow("large", P, stop=lambda p: budget(frames=300))

        @wf.simulate()
        def simulate(p, start, out):
            rng = np.random.default_rng(out.seed)
            for i in range(10):
                time.sleep(0.02)
                out.append(x=rng.normal(size=20_000))
        """)
    run = small_disk / "run"
    done = steersman("run", path, "--run-dir", run, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    told = " ".join(
        done.stderr.rpartition("error:")[2].split()
    )  # before it Parsl's interchange may complain of its log
    assert "No space left" in told
    assert "steersman resume" in told
    assert "steersman/engine" not in done.stderr, "no traceback of ours"
    _, before = opened(run)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused = steersman("resume", run, cwd=tmp_path)
    assert refused.returncode == 4
    assert "Read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr
    subprocess.run(["mount", "-o", "remount,rw,size=400m", str(small_disk)], check=True)
    resumed = steersman("resume", run, "--report", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    directory, state = opened(run)
    assert state.frames >= 300 > before.frames
    assert verify(directory) == []
    shell = resumed.stdout.rpartition("Ask: steersman ")[2].split()
    asked = steersman(*shell, cwd=tmp_path)
    assert asked.returncode == 0, "what the end of a run says to ask is of a segment that there was"
    idle = float(resumed.stdout.partition("slots idle")[2].split()[0])
    assert 100 * kept(directory)["state"]["shares"]["simulating"] == pytest.approx(100 - idle, abs=0.11)


def test_too_few_open_files_are_told_before_anything_starts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = f"ulimit -n 100; exec {sys.executable} -m steersman.cli run double_well --run-dir {run}"
    refused = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 4
    assert "(`ulimit -n 256`)" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("limit", [12, 26, 40])
def test_too_few_processes_are_told_before_anything_starts(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pids.max").write_text(str(limit))
    (tmp_path / "pids.current").write_text("3")
    (tmp_path / "groups").write_text("0::/")
    monkeypatch.setattr(node, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(node, "GROUP_ROOTS", (tmp_path,))
    run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    directory = run.directory
    with pytest.raises(EngineError) as refused:
        run.execute()
    assert str(limit - 3) in refused.value.values["problem"]
    assert not run.state.sessions
    assert lock.owner(directory.path) is None


def test_a_thread_that_is_refused_later_ends_the_run_in_good_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    directory = run.directory

    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Campaign, "_work", refuse)
    with pytest.raises(EngineError):
        run.execute()
    _, state = opened(directory.path)
    assert state.end is not None
    assert state.end.outcome == "interrupted"


def test_a_run_that_is_moved_while_it_is_driven_ends_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And can be read where it is."""
    run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    work = Campaign._work

    def moved(self: Campaign) -> object:
        self.directory.path.rename(tmp_path / "elsewhere")
        return work(self)

    monkeypatch.setattr(Campaign, "_work", moved)
    with pytest.raises(EngineError):
        run.execute()
    assert opened(tmp_path / "elsewhere")[1].sessions


def fill(client: redis.Redis) -> None:
    """Write until the server takes nothing any more."""
    with contextlib.suppress(redis.exceptions.OutOfMemoryError):
        for n in itertools.count():
            client.set(f"steersman:fill{n}", bytes(1000 if n > 30 else 1_000_000))


def test_a_server_without_memory_is_told_and_the_run_goes_on_when_it_has_some(tmp_path: Path) -> None:
    """It is somebody else's: what he has there stays, and of the run nothing does. He may also delete all of it."""
    run = tmp_path / "run"
    command = ("run", "double_well", "--set", "barrier_kT=30", "--set", "frames=100000000", "--run-dir", run, "--bus")
    with (
        Server.start(tmp_path / "bus", maxmemory=40_000_000) as server,
        redis.Redis.from_url(server.url) as client,
        TupleSpace.connect(server.url) as foreign,
    ):
        foreign.put("start", 0, {})
        driver = started(*command, server.url, cwd=tmp_path)
        await_record(run, lambda state: state.frames > 200)

        def told(state: State) -> bool:
            fill(client)  # again, for tuples that are taken make room
            return any("memory limit" in words(note) for note in state.notes)

        stuck = await_record(run, told)
        for key in client.scan_iter("steersman:fill*"):
            client.delete(key)
        went_on = await_record(run, lambda state: state.frames > stuck.frames + 500)
        for key in client.scan_iter(f"steersman:{TupleSpace.connect(run / 'bus').space}:*"):
            client.delete(key)
        await_record(run, lambda state: any("lost what it held" in words(note) for note in state.notes))
        await_record(run, lambda state: state.frames > went_on.frames + 500)
        assert steersman("tell", run, "finish", cwd=run).returncode == 0
        assert driver.wait(timeout=200) == 0
        assert foreign.take("start", int, dict, timeout_s=0) == ("start", 0, {})
        assert list(client.scan_iter("steersman:run-*")) == []
    assert verify(RunDirectory(run)) == []
