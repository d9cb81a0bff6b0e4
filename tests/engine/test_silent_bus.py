"""A server that is silent, and there, is waited for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from steersman.bus import Servers
from steersman.bus import server as embedded
from steersman.engine import campaign


def test_a_run_waits_for_a_server_that_is_silent_and_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one beside it could only fail; on a login node that others keep busy it may be silent for minutes."""
    monkeypatch.setattr(embedded, "START_S", 0.5)
    directory, run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    run._servers = Servers.start(directory.bus)
    with run._servers:
        (pid,) = run._servers.pids
        os.kill(pid, signal.SIGSTOP)
        run._bring_servers_back()
        assert "is there; the run waits for it" in run.state.notes[-1]["text"]
        os.kill(pid, signal.SIGCONT)
        monkeypatch.setattr(embedded, "START_S", 60.0)
        run._bring_servers_back()
        assert run._servers.pids == {pid}
