"""A server that is silent, and there, is waited for; one that is gone is brought back, also before the first walker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from steersman.bus import ServerRefused
from steersman.bus import server as embedded
from steersman.engine import campaign, orphans
from steersman.engine.servers import RunServers
from steersman.journal.records import words
from tests.engine.conftest import WriteWorkflow, await_record, opened, servers_brought_back, started


@pytest.mark.slow
def test_a_run_waits_for_a_server_that_is_silent_and_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one beside it could only fail; on a login node that others keep busy it may be silent for minutes."""
    monkeypatch.setattr(embedded, "START_S", 0.5)
    run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    directory = run.directory
    with RunServers(directory, run.site, run.recorder) as servers:
        (pid,) = servers.pids
        os.kill(pid, signal.SIGSTOP)
        servers.bring_back()
        assert "the run waits" in words(run.state.notes[-1])
        assert not servers.troubles, "nothing is known to be lost"
        os.kill(pid, signal.SIGCONT)
        monkeypatch.setattr(embedded, "START_S", 60.0)
        servers.bring_back()
        assert servers.pids == {pid}
        assert servers.troubles


@pytest.mark.slow
def test_a_run_waits_a_minute_for_a_server_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may start it again, as after an upgrade; the run has no process of it to look at."""
    with embedded.Server.start(tmp_path / "theirs") as theirs:
        assert theirs.pid
        run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
        directory = run.directory
        with RunServers(directory, run.site, run.recorder, theirs.url) as servers:
            os.kill(theirs.pid, signal.SIGSTOP)
            servers.bring_back()
            servers.bring_back()
            assert ["waits for it" in words(note) for note in run.state.notes] == [True], "it is said once"
            monkeypatch.setattr("steersman.engine.servers.PATIENCE_S", 0.0)
            with pytest.raises(ServerRefused):
                servers.bring_back()
            os.kill(theirs.pid, signal.SIGCONT)
            servers.bring_back()
            assert servers.troubles, "what it held is offered again"


@pytest.mark.slow
def test_a_server_that_dies_while_the_start_is_prepared_is_brought_back(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """Prepared once, and the run goes on: its budget is met to the frame, for one walker writes ten at a time."""
    path = write_workflow(f"""
        import time
        from pathlib import Path
        HERE = Path({str(tmp_path)!r})
        wf = Workflow("prepared", P, stop=budget(frames=40))

        @wf.prepare
        def prepare(p):
            with (HERE / "prepared").open("a") as file: file.write("once")
            while not (HERE / "go").exists(): time.sleep(0.05)
            return 7.0

        @wf.simulate()
        def simulate(p, start, out):
            for _ in range(10): out.append(x=start.prepared)
        """)
    (tmp_path / "site.yaml").write_text("simulation: {workers: 1}\n")
    run = tmp_path / "run"
    driver = started("run", path, "--site", "site.yaml", "--rounds", "--run-dir", run, cwd=tmp_path)
    await_record(run, lambda state: (tmp_path / "prepared").exists(), driver=driver)
    orphans.end(orphans.servers(run))
    await_record(run, lambda state: servers_brought_back(state) == 1, driver=driver)
    (tmp_path / "go").touch()
    assert driver.wait(timeout=200) == 0
    directory, state = opened(run)
    assert state.frames == 40
    assert {float(directory.frames.row("w0", row)["x"]) for row in range(40)} == {7.0}
    assert (tmp_path / "prepared").read_text() == "once"
