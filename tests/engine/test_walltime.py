"""Blocks end, killed by a local provider as by a scheduler: walkers write in time, the next block goes on."""

from pathlib import Path

import pytest

from steersman.journal import file as journal
from steersman.journal.records import Began, Ended, Joined, Left, Lost, Published, Start
from steersman.store import FRAME, SEGMENT
from steersman.worker.walker import BLOCK_ENDS
from tests.engine.conftest import WriteWorkflow, finished, opened, started

pytestmark = pytest.mark.slow
WALLTIME_S, MARGIN_S = 10, 3


def test_segments_longer_than_a_block_go_on_in_the_next_one(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    """Segments of 60 s in blocks of 10 s: each is cut in time and goes on exactly where it was."""
    (tmp_path / "site.yaml").write_text(
        f"margin_s: {MARGIN_S}\nsimulation: {{workers: 1, walltime_s: {WALLTIME_S}}}\ntraining: {{workers: 1}}\n"
    )
    path = write_workflow("""
        import time
        wf = Workflow("long", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def count(p, start, out):
            first = int(start.state["next"]) if start.state else 0
            for i in range(first, first + 1200):
                time.sleep(0.05)
                out.append(count=i)
                out.state(next=i + 1)
                if out.stopped: break
        """)
    run = tmp_path / "run"
    driver = started("run", path, "--set", "frames=100000", "--site", "site.yaml", "--run-dir", run, cwd=tmp_path)
    finished(driver, run, until=lambda state: sum(walker.frames > 0 for walker in state.walkers.values()) >= 3)
    directory, state = opened(run)
    ends = {r.walker: r.block_ends or 0.0 for r in journal.read(directory.journal, Joined)}
    assert len(set(ends.values())) >= 3, "three blocks or more"
    assert all(r.t < ends[r.walker] for r in journal.read(directory.journal, Began))
    assert all(r.t < ends[r.walker] for r in journal.read(directory.journal, Ended))
    assert all(r.t < ends[r.walker] for r in journal.read(directory.journal, Published))
    assert sum(r.reason == BLOCK_ENDS for r in journal.read(directory.journal, Left)) >= 2
    lost = {r.walker for r in journal.read(directory.journal, Lost)}
    assert not ends.keys() & lost, "every walker that had come went in good time"
    again = [r for r in journal.read(directory.journal, Start) if r.policy == "continue"]
    assert all(r.exact and "was cut short" in r.reason for r in again)
    starts = {record.start: record for record in again}
    went_on = [segment for segment in state.segments if segment.start in starts and segment.end != segment.first]
    assert went_on
    for segment in went_on:
        parent = starts[segment.start].parent
        assert parent is not None
        before = directory.frames.row(f"w{parent.walker}", parent.row)["count"]
        assert directory.frames.row(f"w{segment.walker}", segment.first)["count"] == before + 1, "without a gap"
    first = f"w{min(segment.walker for segment in state.segments if segment.end != segment.first)}"
    assert directory.frames.rows(first, SEGMENT) == 1
    assert directory.frames.rows(first, FRAME) < WALLTIME_S / 0.05
