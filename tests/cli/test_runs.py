"""Verbs that look at a run that has ended, as programs and pipes see them."""

import json
import sys
from pathlib import Path

import pytest

from steersman.cli.__main__ import main
from steersman.executors import site_files
from steersman.journal import run_directory
from steersman.journal.file import Journal
from steersman.journal.records import End, Run, Session
from steersman.stages import loading


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    directory = run_directory.create(tmp_path, "x", tmp_path / "run")
    site = site_files.load_site("laptop").model_dump(mode="json")
    settings = {"workflow": "double_well", "params": {}, "site": site, "seed": 1, "rounds": False}
    run_directory.write_settings(directory, settings, loading.find("double_well"))
    journal = Journal(directory.journal)
    journal.append(Run(workflow="double_well", seed=1, slots=1))
    journal.append(Session(host="here", pid=1))
    journal.append(End(outcome="goal", reason="it is there"))
    journal.sync()
    return directory.path


def said(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["steersman", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return capsys.readouterr().out


def test_watch_prints_lines_into_a_pipe(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `run` does: how far it is, and at the end the same table."""
    text = said(["watch", str(ended)], monkeypatch, capsys)
    assert "0 frames" in text.splitlines()[0]
    assert "wall time" in text
    assert text.endswith("goal: it is there\n")


def test_resume_of_a_finished_run_prints_the_object_that_it_would_have_printed(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(said(["resume", str(ended), "--json"], monkeypatch, capsys))
    assert (found["outcome"], found["run"]) == ("goal", str(ended))
