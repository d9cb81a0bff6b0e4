"""What comes with Steersman, by name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from steersman.cli.__main__ import app
from steersman.stages import loading
from steersman.system.errors import UnknownName


@pytest.mark.parametrize("name", ["double_well", "wells"])
def test_a_copy_of_a_shipped_workflow_is_that_workflow(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "mine", "--from", name]).exit_code == 0
    assert loading.load(tmp_path / "mine.py").name == name
    assert (tmp_path / "mine.py").read_bytes() == loading.shipped()[name].read_bytes()


def test_what_is_not_shipped_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(CliRunner().invoke(app, ["new", "mine", "--from", "wels"]).exception, UnknownName)
    assert not list(tmp_path.iterdir())


def test_reference_problems_have_names_of_their_own() -> None:
    """None hides a workflow of the same name."""
    files = [path.stem for folder in (loading.SHIPPED, loading.REFERENCE) for path in folder.glob("[!_]*.py")]
    assert sorted(files) == sorted(loading.shipped())
