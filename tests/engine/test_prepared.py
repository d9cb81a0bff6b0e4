"""What a run prepares: from what, and what becomes of it when it is lost."""

import shutil
from pathlib import Path

import pytest

from steersman.calls.opened import open_run
from steersman.journal import file as journal
from steersman.journal.records import Prepared
from steersman.journal.run_directory import RunDirectory
from tests.engine.conftest import opened, steersman

pytestmark = pytest.mark.slow

FILE = """
import numpy as np
from helper import fill
from steersman import Params, Workflow, budget

class P(Params):
    frames: int = 10
    size: int = -1

wf = Workflow("prepared", P, stop=lambda p: budget(frames=p.frames))

@wf.prepare
def begin(p):
    if p.size < 0:
        raise ValueError("size")
    return {"x": fill(p.size, np.random.default_rng().random())}

@wf.simulate()
def segment(p, start, out):
    for i in range(5):
        out.append(time=i + 1.0, x=start.prepared["x"])
"""


def test_a_start_is_prepared_as_it_was_asked_for_and_what_is_another_is_said(tmp_path: Path) -> None:
    (tmp_path / "prepared.py").write_text(FILE)
    (tmp_path / "helper.py").write_text("from numpy import full as fill")
    run, name = tmp_path / "run", "prepared.py"
    assert steersman("run", name, "--run-dir", run, "--workers", "1", "--rounds", cwd=tmp_path).returncode == 5
    mended = tmp_path / "mended.py"
    mended.write_text(FILE.replace("p.size < 0", "p.size < 1"))
    assert steersman("resume", run, "--workflow", mended, "--set", "size=3", cwd=tmp_path).returncode == 0
    directory = RunDirectory(run)
    first = open_run(run).dataset().x.values
    assert (first.shape, len({*first[:, 0]})) == ((10, 3), 1)
    damaged(directory)
    assert steersman("verify", run, "--repair", cwd=tmp_path).returncode == 0
    assert (run / "aside" / "prepared.pkl").exists()
    assert steersman("resume", run, "--set", "frames=20", "--set", "size=4", cwd=tmp_path).returncode == 0
    state = opened(run)[1]
    again = open_run(run).dataset().x.values
    assert (again.shape, len({*again[:, 0]})) == ((20, 3), 2)
    made = [record.sha256 for record in journal.read(directory.journal, Prepared)]
    assert made[0] != made[1] == state.prepared
    assert any("prepared.pkl" in str(note) for note in state.notes)
    assert steersman("verify", run, cwd=tmp_path).returncode == 0
    kept = (run / "workflow" / "helper.py").rename(tmp_path / "kept.py")
    for words in (("verify", run, "--repair"), ("verify", run)):
        assert steersman(*words, cwd=tmp_path).returncode == 6
    assert steersman("resume", run, "--set", "frames=30", cwd=tmp_path).returncode == 2
    kept.rename(run / "workflow" / "helper.py")
    shutil.rmtree(run / "errors")
    directory.workflow.write_text(directory.workflow.read_text() + "\n# somebody was here\n")
    assert steersman("resume", run, "--set", "frames=30", cwd=tmp_path).returncode == 2
    assert steersman("verify", run, "--repair", cwd=tmp_path).returncode == 0
    assert steersman("resume", run, "--set", "frames=30", cwd=tmp_path).returncode == 0


def damaged(directory: RunDirectory) -> None:
    data = bytearray(directory.prepared.read_bytes())
    data[-8] ^= 1
    directory.prepared.write_bytes(data)
