"""The program that Parsl's processes are started by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from steersman.executors.steady import MARK, MPS, POOL, SEMAPHORES, STEADY, left, remove_left

MANAGER = """
import multiprocessing, sys
if __name__ == "__main__":
    server = multiprocessing.get_context("spawn").Manager()  # as Parsl's manager has one
    print(server.address, flush=True)
    sys.stdin.read()
"""
WORKERS = """
import multiprocessing, os, sys, time
from steersman.system.processes import end_with_parent

def work(told):
    end_with_parent()
    told.put(os.getpid())
    time.sleep(600)

if __name__ == "__main__":
    fork = multiprocessing.get_context("forkserver")  # as workers are made
    helper = fork.Manager()
    told = helper.Queue()
    for _ in range(2):
        fork.Process(target=work, args=(told,)).start()
    print(helper._process.pid, told.get(), told.get(), flush=True)
    sys.stdin.read()
"""
ECHO = """
import os, pathlib, sys, time
folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
print(folder, flush=True)
control = pathlib.Path(folder or "", "control")
while folder and not (control.exists() and control.read_text().endswith("\\n")):
    time.sleep(0.01)
print(control.read_text() if folder else "", flush=True)
sys.stdin.read()
"""
HELD = "held = multiprocessing.get_context('spawn').Semaphore()"


@pytest.fixture
def short() -> Iterator[Path]:
    """A socket's path may have 107 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("how", ["TERM", "ends"])
def test_sockets_of_what_is_started_go_with_it(how: str, short: Path) -> None:
    (short / "manager.py").write_text(MANAGER)
    with subprocess.Popen(
        [Path(sys.executable).with_name(STEADY), str(short / "manager.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"TMPDIR": str(short)},
    ) as manager:  # fmt: skip
        assert manager.stdin is not None
        assert manager.stdout is not None
        socket = Path(manager.stdout.readline().strip())
        assert socket.is_socket()
        assert short in socket.parents
        if how == "TERM":
            os.killpg(manager.pid, signal.SIGTERM)
        else:
            manager.stdin.close()
        assert manager.wait(60) == (-signal.SIGTERM if how == "TERM" else 0)
    assert sorted(path.name for path in short.iterdir()) == ["manager.py"]


def test_what_is_killed_whole_leaves_names_by_which_its_run_removes_it(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that would have removed it; and what another run left stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    (short / "manager.py").write_text(MANAGER.replace("    print", f"    {HELD}\n    print", 1))
    runs = [short / "run", short / "other"]
    for run in runs:
        run.mkdir()
        with subprocess.Popen(
            [Path(sys.executable).with_name(STEADY), str(short / "manager.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"TMPDIR": str(short), MARK: f"{run}#12345678"},
        ) as manager:  # fmt: skip
            assert manager.stdout is not None
            assert Path(manager.stdout.readline().strip()).is_socket()
            os.killpg(manager.pid, signal.SIGKILL)
    for n, run in enumerate(runs):
        found = left(run)
        assert {path.parent for path in found} == {short, SEMAPHORES}
        remove_left(run)
        assert left(run) == []
        assert not any(path.exists() for path in found)
        assert [bool(left(other)) for other in runs] == [False, n == 0]


def test_a_manager_ends_with_its_helper(short: Path) -> None:
    """Parsl's would write a traceback as fast as it can, 6.6 GB an hour, and take no job."""
    (short / "manager.py").write_text(MANAGER.replace("server.address", "server._process.pid"))
    with subprocess.Popen(
        [Path(sys.executable).with_name(STEADY), str(short / "manager.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(short)},
    ) as manager:  # fmt: skip
        assert manager.stdout is not None
        os.kill(int(manager.stdout.readline()), signal.SIGKILL)
        assert manager.wait(60) == -signal.SIGTERM
    assert sorted(path.name for path in short.iterdir()) == ["manager.py"]


def test_helper_and_workers_end_with_a_manager_that_is_killed(short: Path) -> None:
    """A server of forks lives as long as one of them: their parent does not end before they do."""
    (short / "manager.py").write_text(WORKERS)
    with subprocess.Popen(
        [Path(sys.executable).with_name(STEADY), str(short / "manager.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(short)},
    ) as manager:  # fmt: skip
        assert manager.stdout is not None
        made = [psutil.Process(int(pid)) for pid in manager.stdout.readline().split()]
        server = made[0].parent()
        assert server is not None
        manager.kill()
    assert psutil.wait_procs([*made, server], timeout=60)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("installed", [True, False])
def test_the_daemon_of_mps_lives_as_long_as_its_manager(installed: bool, short: Path) -> None:
    """A killed one's, too. Without the daemon the workers start all the same, and say so."""
    (short / POOL).write_text("#!/usr/bin/env python\n" + ECHO)
    if installed:
        (short / "nvidia-cuda-mps-control").write_text(
            "#!/bin/sh\necho $$ $@ > $CUDA_MPS_PIPE_DIRECTORY/control\nexec sleep 600\n"
        )
    for program in short.iterdir():
        program.chmod(0o755)
    path = f"{short}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [Path(sys.executable).with_name(STEADY), POOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(short), "PATH": path, MPS: "1"},
    ) as manager:  # fmt: skip
        assert manager.stdout is not None
        assert manager.stderr is not None
        folder = manager.stdout.readline().strip()
        if not installed:
            manager.kill()
            assert folder == "None"
            assert "steersman: no MPS" in manager.stderr.read()
            return
        pid, how = manager.stdout.readline().split()
        assert how == "-f"
        daemon = psutil.Process(int(pid))
        manager.kill()
        daemon.wait(30)
