"""Simulations that kill their process, hang, or fail on one node: told, contained, and the run reaches its end."""

import os
import signal
from pathlib import Path

import pytest

from steersman.executors.launcher import BINARIES
from steersman.journal import file as journal
from steersman.journal.records import Aside, Began, Blame, FrameId, Lost, Record, Start, Stop, words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from tests.engine.conftest import WriteWorkflow, await_record, completed, finished, opened, started

pytestmark = pytest.mark.slow
Told = tuple[RunDirectory, State, list[Record]]


@pytest.fixture(scope="module")
def deadly(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Segments from the one frame with x = 1 kill their process; segment w1.0 hangs, deaf and holding its thread."""
    cwd = tmp_path_factory.mktemp("deadly")
    (cwd / "site.yaml").write_text("lease_s: 3\nsimulation: {workers: 2}\n")
    (cwd / "mine.py").write_text("""
import os, signal, time
import numpy as np
from steersman import Params, Workflow, budget
from steersman.steering import Candidate, Policy

class P(Params):
    frames: int = 100_000

class Highest(Policy):
    needs = ("x",)
    def rank(self, scores, rng):
        order = np.argsort(-scores.values["x"], kind="stable")
        return [Candidate(int(i), self.name, 0.0, "the highest x") for i in order[:1]]

wf = Workflow("deadly", P, stop=lambda p: budget(frames=p.frames))

@wf.simulate(hang_s=3)
def simulate(p, start, out):
    if start.frame and start.frame["x"] == 1.0:
        os.kill(os.getpid(), signal.SIGKILL)
    for i in range(10):
        time.sleep(0.02)
        out.append(x=1.0 if out.name == "w0.0" and i == 5 else -float(i))
        while out.name == "w1.0":
            pass

@wf.score()
def place(p, model, frames):
    return {"x": frames["x"]}

wf.steer(Highest())
""")
    driver = started("run", "mine.py", "--site", "site.yaml", "--run-dir", "run", cwd=cwd)

    def seen(state: State) -> bool:
        came_back = any(each.slot == 1 and each.number > 1 and each.frames for each in state.walkers.values())
        return bool(state.blamed) and came_back

    finished(driver, cwd / "run", until=seen)
    directory, state = opened(cwd / "run")
    return directory, state, list(journal.read(directory.journal))


def test_a_start_that_kills_its_walkers_is_blamed_after_two_tries_and_not_proposed_again(deadly: Told) -> None:
    _, _, records = deadly
    blames = [record for record in records if isinstance(record, Blame)]
    assert blames
    frame = FrameId(0, 5, 0)
    assert all(record.parent == frame for record in blames)
    assert "2 walkers died" in blames[0].reason
    first = blames[0].t
    assert not [r for r in records if isinstance(r, Start) and r.parent == frame and r.t > first]
    deaths = [record for record in records if isinstance(record, Lost) and record.blame]
    assert 2 <= len(deaths) <= 5, "two on the frame, perhaps two more that were under way, one that hung"
    assert all("WorkerLost" in record.cause for record in deaths)


def test_a_segment_that_hangs_is_told_to_stop_then_ended_and_its_slot_comes_back(deadly: Told) -> None:
    directory, state, records = deadly
    stopped = next(record for record in records if isinstance(record, Stop) and record.segment == "w1.0")
    assert stopped.by == "engine"
    assert "committed nothing" in stopped.reason
    lost = next(record for record in records if isinstance(record, Lost) and record.walker == 1)
    assert lost.t > stopped.t
    assert "in simulate" in (directory.errors / "w1.stderr").read_text(), "it tells where it hung"
    assert any(walker.slot == 1 and walker.number > 1 and walker.frames for walker in state.walkers.values())


def test_a_node_that_fails_everything_is_set_aside_and_told(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    """Two blocks, each with a name of its own as two nodes have; on one of them every segment fails."""
    name = f"export STEERSMAN_NODE=$(mkdir {tmp_path}/first 2>/dev/null && echo broken || echo sound)"
    (tmp_path / "site.yaml").write_text(
        f"simulation: {{workers: 1, blocks: 2}}\ntraining: {{workers: 1}}\nworker_init: {name}\n"
    )
    path = write_workflow("""
        import os, time
        wf = Workflow("nodes", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate(retries=0)
        def simulate(p, start, out):
            time.sleep(0.1)
            if os.environ["STEERSMAN_NODE"] == "broken":
                raise OSError("no such device: /dev/nvidia0")
            out.append(x=0.0)
        """)
    run = tmp_path / "run"
    driver = started("run", path, "--set", "frames=100000", "--site", "site.yaml", "--run-dir", run, cwd=tmp_path)
    finished(driver, run, until=lambda state: state.aside and state.ended["finished"] > 40)
    directory, state = opened(run)
    assert state.aside == {"broken"}
    aside = next(journal.read(directory.journal, Aside))
    assert aside.node == "broken"
    broken = {walker.number for walker in state.walkers.values() if walker.node == "broken"}
    late = [r for r in journal.read(directory.journal, Began) if r.walker in broken and r.t > aside.t]
    assert len(late) <= 2, "what it had taken already"


def test_a_score_that_hangs_in_a_thread_of_the_driver_is_told_of_and_does_not_keep_it_from_ending(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    path = write_workflow("""
        import time
        wf = Workflow("hangs", P, stop=budget(frames=10**8))

        @wf.simulate()
        def simulate(p, start, out):
            time.sleep(0.1)
            out.append(x=0.0)

        @wf.score(hang_s=1)
        def place(p, model, frames): time.sleep(10**6)
        """)
    (tmp_path / "site.yaml").write_text("simulation: {workers: 1}\nscoring: {threads: 1}\n")
    run = tmp_path / "run"
    driver = started("run", path, "--site", "site.yaml", "--run-dir", run, cwd=tmp_path)
    state = await_record(run, lambda state: state.notes, driver=driver)
    told = [words(note) for note in state.notes]
    assert told[0].startswith("scoring with model 0 takes longer than its hang_s of 1 s. It runs in a thread"), told
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=200) == 130
    state = opened(run)[1]
    assert state.end is not None
    assert state.end.outcome == "interrupted"
    assert len(state.notes) == 1


def test_a_run_is_done_whatever_folder_its_workers_are_in_and_whatever_job_its_shell_was(
    write_workflow: WriteWorkflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run directory is a relative path by default; a shell of `salloc` outlives its job."""
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1000000000")
    (tmp_path / "site.yaml").write_text("simulation: {workers: 1}\nworker_init: cd /\n")
    path = write_workflow("""
        wf = Workflow("elsewhere", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def go(p, start, out): out.append(x=1.0)
        """)
    started("run", path, "--set", "frames=3", "--site", "site.yaml", "--run-dir", "run", cwd=tmp_path)
    state = await_record(tmp_path / "run", lambda state: state.end)
    assert state.end is not None
    assert state.end.outcome == "budget"


def test_parsl_that_never_starts_ends_the_run_with_its_cause(
    write_workflow: WriteWorkflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bin" / "interchange.py"
    broken.parent.mkdir()
    broken.write_text("raise SystemExit(1)\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(broken.parent), BINARIES, os.environ["PATH"]]))
    path = write_workflow("""
        wf = Workflow("idle", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def go(p, start, out): out.append(x=1.0)
        """)
    _, state, summary = completed(path, cwd=tmp_path, code=5)
    assert summary["outcome"] == "failed"
    assert "interchange" in summary["reason"]
    assert "without a new" in summary["reason"]
    assert not state.frames


@pytest.mark.parametrize(("ignored", "outcome"), [(False, "interrupted"), (True, "budget")], ids=["plain", "nohup"])
def test_a_run_whose_terminal_goes_ends_in_good_order_and_under_nohup_goes_on(
    ignored: bool, outcome: str, write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    path = write_workflow("""
        import time
        from pathlib import Path
        wf = Workflow("hung_up", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def go(p, start, out):
            out.append(x=1.0)
            while not (out.stopped or Path("gone").exists()):
                time.sleep(0.01)
        """)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    driver = started("run", path, "--set", "frames=3", "--run-dir", "run", cwd=tmp_path)
    signal.signal(signal.SIGHUP, before)
    await_record(tmp_path / "run", lambda state: state.frames, driver=driver)
    os.killpg(driver.pid, signal.SIGHUP)
    (tmp_path / "gone").touch()
    driver.wait(timeout=200)
    _, state = opened(tmp_path / "run")
    assert state.end is not None
    assert state.end.outcome == outcome
