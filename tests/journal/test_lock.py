"""Who drives a run, on file systems as clusters have them."""

import errno
import fcntl
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from steersman.journal import lock
from steersman.journal.lock import Lock, driven, owner


def test_a_run_can_be_driven_where_the_file_system_knows_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Lock(tmp_path).held():
        assert owner(tmp_path) is not None
    assert owner(tmp_path) is None


def test_a_driver_goes_on_being_heard_of_after_its_file_system_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another machine takes it for dead a minute later, and takes its run."""
    answers = iter([OSError(errno.ESTALE, "Stale file handle")])

    def asked(run: Path) -> lock.Owner | None:
        for trouble in answers:
            raise trouble
        return owner(run)

    held = Lock(tmp_path)
    held._write()
    before = (tmp_path / "driver.json").stat()
    monkeypatch.setattr(lock, "owner", asked)
    beats = iter([False, False, True])
    monkeypatch.setattr(held._over, "wait", lambda _: next(beats))
    held._beat()
    assert (tmp_path / "driver.json").stat().st_mtime_ns > before.st_mtime_ns
    assert held.lost == ""


@pytest.mark.parametrize("step_s", [-3600.0, 10.0, 3600.0])
@pytest.mark.parametrize("host", ["", "elsewhere"])
def test_a_clock_that_is_set_makes_no_driver_look_dead(
    step_s: float, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its run gets a second one. psutil takes a process's start from the clock, too."""
    monkeypatch.setattr(platform, "node", lambda: host or "here")
    with Lock(tmp_path).held():
        monkeypatch.setattr(platform, "node", lambda: "here")
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + step_s)
        monkeypatch.setattr(psutil, "boot_time", lambda: step_s)
        found = owner(tmp_path)
        assert found is not None
        assert found.why_gone == ""
        os.utime(tmp_path / "driver.json", (0, now() - 120))
        late = owner(tmp_path)
        assert late is not None
        assert bool(late.why_gone) == bool(host), "of another machine only its silence is known"


def test_a_copy_of_a_run_that_is_driven_is_not_driven(tmp_path: Path) -> None:
    """Else `tell COPY finish` ends the original, and nobody can go on with the copy."""
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "another name").symlink_to(run)
    with Lock(run).held():
        shutil.copytree(run, tmp_path / "copy")
        assert driven(run)
        assert driven(tmp_path / "another name")
        assert not driven(tmp_path / "copy")
        with Lock(tmp_path / "copy").held() as theirs:
            assert str(run) in theirs.took_over
        run.rename(tmp_path / "moved")
        assert driven(tmp_path / "moved"), "it is still the same"


def test_a_driver_in_a_container_is_known_by_its_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's name may be the same, but the process is not seen, or another of its number is."""
    with Lock(tmp_path).held():
        monkeypatch.setattr(lock, "_processes", lambda: "pid:[1]")
        monkeypatch.setattr(lock, "_started", lambda pid: 0)
        assert driven(tmp_path)
        os.utime(tmp_path / "driver.json", (0, time.time() - 120))
        assert not driven(tmp_path)


@pytest.mark.parametrize("ends", ["removed", "taken", "moved"])
def test_a_driver_that_lost_its_lock_says_how(ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    held = Lock(run)
    held._write()
    monkeypatch.setattr(held._over, "wait", lambda _: False)
    if ends == "removed":
        (run / "driver.json").unlink()
    elif ends == "moved":
        run.rename(tmp_path / "elsewhere")
    else:
        monkeypatch.setattr(lock, "_processes", lambda: "pid:[1]")
        Lock(run)._write()
        monkeypatch.undo()
        monkeypatch.setattr(held._over, "wait", lambda _: False)
    held._beat()
    assert ("another driver" in held.lost) == (ends == "taken")
    assert held.lost


def test_a_process_is_told_from_a_later_one_and_from_a_dead_one(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    started = lock._started(child.pid)
    assert started > lock._started(os.getpid()) > 0
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert lock._started(child.pid) == 0, "a zombie"
    child.wait()
    assert lock._started(child.pid) == 0
