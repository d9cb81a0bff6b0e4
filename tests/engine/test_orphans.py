"""What is killed is dead at once, whoever does or does not reap it."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from steersman.bus import Server
from steersman.engine import orphans


def test_a_dead_process_that_nobody_reaps_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under the first process of a container, which takes seconds for it, or never does."""
    monkeypatch.setattr(orphans, "WAIT_S", math.inf)
    careless = "import subprocess, time; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", careless], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert orphans.end([child]) == 1
        assert child.status() == psutil.STATUS_ZOMBIE
        assert orphans.end([psutil.Process(parent.pid), child]) == 2


def test_a_server_is_found_whose_driver_died_before_it_wrote_where_it_is(tmp_path: Path) -> None:
    """And nobody else who works in its folder."""
    with Server.start(tmp_path / "bus") as server, subprocess.Popen(["sleep", "1000"], cwd=tmp_path / "bus") as other:
        (tmp_path / "bus" / "bus.json").unlink()
        found = [process.pid for process in orphans.servers(tmp_path)]
        other.kill()
        assert found == [server.pid]
    assert orphans.servers(tmp_path) == []


def test_a_file_of_the_user_is_not_taken_for_a_module_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the warden dies of it, and what a killed driver started goes on."""
    for name in ("random", "queue", "steersman"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is mine')")
    monkeypatch.chdir(tmp_path)
    with orphans.guarded(tmp_path):
        left = subprocess.Popen(["sleep", "1000"])
    assert left.wait(timeout=30) == -signal.SIGKILL


HOLDER = """
import multiprocessing, time
held = multiprocessing.get_context("spawn").Semaphore()
print(held._semlock.name, flush=True)
time.sleep(100)
"""


def test_what_is_ended_leaves_no_semaphore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine has as many as its memory file system holds, and each run of each user would leave some."""
    monkeypatch.setattr(orphans, "WAIT_S", math.inf)
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        semaphore = Path("/dev/shm", f"sem.{holder.stdout.readline().strip().removeprefix('/')}")
        assert semaphore.exists()
        process = psutil.Process(holder.pid)
        assert orphans.end([process, *process.children()]) == 2
    assert not semaphore.exists()
