"""How many files a run has is told, and warned of where a file system would suffer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from steersman.checks.plan import check_plan
from steersman.engine import files
from steersman.engine.campaign import plan
from steersman.executors.site import Site
from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, GroupWriter


@pytest.mark.parametrize("variables", [1, 3])
def test_what_is_expected_of_a_walker_is_what_the_store_makes(variables: int, tmp_path: Path) -> None:
    writer = GroupWriter(tmp_path / "w0")
    columns = {f"x{number}": np.ones((4, 2), np.float32) for number in range(variables)}
    writer.extend(FRAME, columns | {"segment": np.ones(4, np.int64)})
    writer.append(SEGMENT, {"segments": np.ones(len(SEGMENT_FIELDS), np.int64)})
    writer.publish()
    writer.close()
    assert files.count(tmp_path) == files.expected(1, variables) - files.OF_A_RUN


def test_too_many_are_warned_of_before_a_run() -> None:
    """It is no error: nobody knows a file system from here."""
    found = {each.what: each for each in check_plan(plan("double_well", site_changes={"simulation.workers": 20_000}))}
    assert found["files"].ok
    assert "(`most_files`: 100,000)" in found["files"].found
    assert files.in_words(71, Site(name="laptop")) == "71 files"


def test_the_files_of_the_whole_campaign_are_estimated(tmp_path: Path) -> None:
    """New walkers come with each block: ten hours in blocks of one hour are ten rounds of them. Those of ended blocks
    are merged."""
    workflow = tmp_path / "long.py"
    workflow.write_text(
        "from steersman import Workflow, budget\n"
        "wf = Workflow('long', stop=budget(hours=9.5))\n"
        "@wf.simulate()\n"
        "def walk(p, start, out): out.append(x=1.0)\n"
    )
    changes = {"account": "lab", "queue": "prod", "simulation.nodes": 1000}
    found = {each.what: each for each in check_plan(plan(str(workflow), site="aurora", site_changes=changes))}
    said = (
        f"at least {files.expected(12_000, 0, 10):,} files, more than the limit of site aurora (`most_files`: 100,000)"
    )
    assert found["files"].found.startswith(said)
    assert "10 generations of" in found["files"].found
    assert files.expected(12_000, 0, 10) < files.expected(12_000, 0, 2) + 500
    changes |= {"simulation.ahead_s": 1800}  # of blocks of an hour: two always run, where no queue is waited for
    found = {each.what: each for each in check_plan(plan(str(workflow), site="aurora", site_changes=changes))}
    assert "19 generations of" in found["files"].found
    assert f"{19_000:.3g} within" in found["node hours"].found


@pytest.mark.parametrize(("frames", "ok"), [(199, False), (200, True)])
def test_a_budget_that_ends_before_the_first_training_is_found_by_check(frames: int, ok: bool) -> None:
    """With draws that are held out it must be larger by these."""
    found = {each.what: each for each in check_plan(plan("double_well", assignments=[f"frames={frames}"]))}
    assert found["training when"].ok == ok


def test_what_a_frame_may_take_is_told_of_the_budget_and_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any is known; of a workflow without a training, or without a budget of frames, there is nothing to say."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**33))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=2**31))
    told = {each.what: each.found for each in check_plan(plan("double_well", assignments=["frames=4096"]))}
    assert told["disk"].startswith("8 GiB free, so each of 4,096 frames may take 2 MiB")
    assert told["memory"].startswith("2 GiB here, so each of the 4,096 frames that a training reads may take 512 KiB")
    told = {each.what: each.found for each in check_plan(plan("fold"))}
    assert told["disk"].startswith("8 GiB free; ")
    assert "100,000 frames" in told["memory"]
