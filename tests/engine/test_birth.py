"""A run that is killed while its directory is made: the same command makes it, and nobody's files are touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.engine import campaign
from steersman.journal import run_directory
from steersman.journal.errors import BadDirectory
from steersman.stages import modules


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (run_directory, "make_root"),
        (run_directory, "write_settings"),
        (modules, "keep"),
        (campaign, "Journal"),
        (campaign, "Run"),
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
    if name == "Run":  # its journal is there
        assert run_directory.open_run(run)
        return
    with pytest.raises(BadDirectory):
        run_directory.open_run(run)
    directory, _ = campaign.begin(plan, run_dir=run)
    assert directory.settings()["workflow"] == "double_well"
    assert not directory.unborn.exists()
    with pytest.raises(BadDirectory):
        campaign.begin(plan, run_dir=run)


def test_an_empty_folder_becomes_a_run_directory_and_one_with_files_does_not(tmp_path: Path) -> None:
    plan = campaign.plan("double_well")
    (tmp_path / "empty").mkdir()
    campaign.begin(plan, run_dir=tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "workflow.py").write_text("precious")
    with pytest.raises(BadDirectory):
        campaign.begin(plan, run_dir=tmp_path / "mine")
    assert (tmp_path / "mine" / "workflow.py").read_text() == "precious"
