"""What Steersman 0.1 wrote is read as it was: a run of each workflow, all without weights, two without frames."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steersman.cli.__main__ import app
from steersman.dashboard import figures, report
from steersman.data.history import History
from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.records import Ended, Note
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State

RUNS = Path(__file__).with_name("runs_of_0_1")


@pytest.fixture(params=["double_well", "fold", "shallow_water"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(RUNS / request.param, tmp_path / request.param))


def said(*words: object) -> str:
    """What a command prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_its_status_is_what_that_version_said(run: RunDirectory) -> None:
    """All but how many files there are: not all were kept. What that version did not say yet is left aside."""
    then = json.loads((run.path / "status.json").read_text())
    now = json.loads(said("status", run.path, "--json"))
    for model in now["models"]:
        del model["reason"]
    assert {name: now[name] for name in then if name != "files"} == {
        name: value for name, value in then.items() if name != "files"
    }


def test_each_line_becomes_a_record_and_each_segment_has_its_story(run: RunDirectory) -> None:
    lines = [json.loads(line) for line in run.journal.read_text().splitlines()]
    history = History(run)
    assert not history.flaws
    assert [record.kind for record in journal.read(run.journal)] == [line["kind"] for line in lines]
    assert [record["t"] for record in json.loads(said("journal", run.path, "--json"))["records"]] == [
        line["t"] for line in lines
    ]
    ended = [line for line in lines if line["kind"] == "ended"]
    assert len(history.segments) == len(ended) > 0
    starts = {line["start"]: line for line in lines if line["kind"] == "start"}
    for record in list(journal.read(run.journal, Ended))[:3]:
        told = json.loads(said("why", run.path, f"w{record.walker}.{record.segment}", "--json"))
        start = starts[record.start]
        assert (told["start"], told["seed"], told["policy"]) == (record.start, start["seed"], start["policy"])
        assert told["frames"] == record.end_row - record.first_row


def test_a_journal_that_goes_on_holds_both_versions_in_one_chain(run: RunDirectory) -> None:
    before = list(journal.read(run.journal))
    state = State()
    written = Journal(run.journal, replay=state.apply)
    (note,) = written.append(Note(text="of today"))
    written.append(Note(text="and another"))
    written.close()
    history = History(run)
    assert not history.flaws
    assert list(journal.read(run.journal))[: len(before) + 1] == [*before, note]
    data = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join([*data[:-2], data[-1]]))
    assert History(run).flaws, "one of today's is missing"


@pytest.mark.slow
def test_its_report_is_drawn(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all its figures where its frames are there."""
    whole = bool(run.frames.walkers())
    if not whole:
        monkeypatch.setattr(figures, "FIGURES", {})
    report.write_report(run)
    page = run.report.read_text()
    assert run.path.name in page
    assert not whole or "This figure is missing" not in page
