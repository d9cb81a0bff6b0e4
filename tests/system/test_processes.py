"""Processes end when they are asked to, or are killed; the dead do not live, reaped or not."""

import signal
import subprocess
import sys

import pytest

from steersman.system.processes import end, lives

WAITS = "print(flush=True); import time; time.sleep(1000)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"


def started(program: str, *, group: bool = False) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=group)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize(("program", "grace_s", "by"), [(WAITS, 60.0, signal.SIGTERM), (DEAF, 0.2, signal.SIGKILL)])
def test_a_process_ends_by_itself_or_is_killed(program: str, grace_s: float, by: int) -> None:
    with started(program) as process:
        assert lives(process.pid)
        assert end(process.pid, grace_s)
        assert not lives(process.pid), "dead, though nobody has reaped it"
    assert process.returncode == -by
    assert not lives(process.pid), "reaped"
    assert end(process.pid, grace_s), "again, of what is gone"


def test_a_group_ends_with_all_that_its_leader_started() -> None:
    """Also when the leader itself is dead."""
    parent = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {DEAF!r}])"
    with started(parent, group=True) as leader:
        leader.wait()
        assert end(leader.pid, 0.2, group=True)
