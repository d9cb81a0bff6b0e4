"""What is killed is dead at once, whoever does or does not reap it."""

import math
import subprocess
import sys

import psutil
import pytest

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
