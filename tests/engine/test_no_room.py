"""Resources run out: a clean stop with one clear message, and the run goes on when the cause is gone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.engine.verify import verify

from .conftest import WriteWorkflow, opened, steersman

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


def test_a_full_disk_stops_the_run_cleanly_and_it_goes_on_when_there_is_room(
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
    assert "No space left on device" in told
    assert "steersman resume" in told
    assert "steersman/engine" not in done.stderr, "no traceback of ours"
    _, before = opened(run)
    subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
    resumed = steersman("resume", run, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    directory, state = opened(run)
    assert state.frames >= 300 > before.frames
    assert verify(directory) == []
