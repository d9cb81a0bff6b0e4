"""A run that is killed while its directory is made: the same command makes it, and nobody's files are touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.engine import campaign
from steersman.journal import run_directory
from steersman.journal.errors import BadDirectory
from steersman.journal.records import Ended, Run
from steersman.stages import modules, trust


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (run_directory, "make_root"),
        (run_directory, "write_settings"),
        (modules, "keep"),
        (campaign, "Journal"),
        (campaign, "Campaign"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_run_that_was_killed_before_it_began_can_be_run_again(
    module: object, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, run = campaign.plan("double_well"), tmp_path / "run"

    def killed(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(module, name, killed)
        with pytest.raises(KeyboardInterrupt):
            campaign.begin(plan, run_dir=run)
    if name == "Campaign":  # its journal is there
        assert run_directory.open_run(run)
        return
    with pytest.raises(BadDirectory):
        run_directory.open_run(run)
    directory = campaign.begin(plan, run_dir=run).directory
    assert directory.settings()["workflow"] == "double_well"
    assert not directory.unborn.exists()
    with pytest.raises(BadDirectory):
        campaign.begin(plan, run_dir=run)


def test_of_two_runs_that_begin_in_one_folder_at_one_moment_one_is_refused(tmp_path: Path) -> None:
    """And what the first has put there stays."""
    with run_directory.creating(tmp_path, "fold", tmp_path / "run") as directory:
        directory.modules.mkdir()
        with pytest.raises(BadDirectory):
            run_directory.create(tmp_path, "fold", tmp_path / "run")
        assert directory.modules.exists()
    assert run_directory.create(tmp_path, "fold", tmp_path / "run").path == directory.path, "it never began"


def test_changed_code_that_is_refused_is_neither_executed_nor_trusted(tmp_path: Path) -> None:
    """Also where a record of the journal does not fit those before it."""
    run = campaign.begin(campaign.plan("double_well"), run_dir=tmp_path / "run")
    directory = run.directory
    files = {name: run_directory.sha256(directory.path / name) for name in ("workflow.py",)}
    run.recorder.record(Run(workflow="double_well", files=files))
    run.recorder.journal.append(Ended(walker=7, segment=0, start=0, first_row=0, end_row=1, how="finished"))
    run.recorder.journal.close()
    with directory.workflow.open("a") as file:
        file.write(f"\nopen({str(tmp_path / 'executed')!r}, 'w')\n")
    with pytest.raises(BadDirectory):
        campaign.resume(directory)
    assert not (tmp_path / "executed").exists()
    assert not trust.trusted(directory.workflow)


def test_an_empty_folder_becomes_a_run_directory_and_one_with_files_does_not(tmp_path: Path) -> None:
    plan = campaign.plan("double_well")
    (tmp_path / "empty").mkdir()
    campaign.begin(plan, run_dir=tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "workflow.py").write_text("precious")
    with pytest.raises(BadDirectory):
        campaign.begin(plan, run_dir=tmp_path / "mine")
    assert (tmp_path / "mine" / "workflow.py").read_text() == "precious"
