"""Verbs that look at a run that has ended, as programs and pipes see them."""

import json
import os
import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steersman.cli import campaigns
from steersman.cli.__main__ import app, main
from steersman.engine import campaign
from steersman.executors import site_files
from steersman.executors.errors import BadSite
from steersman.journal import run_directory
from steersman.journal.file import Journal, read
from steersman.journal.lock import Lock, Owner
from steersman.journal.records import Began, End, Hired, Published, Record, Run, Session, Start, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.system.errors import BadInput


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


def test_a_site_key_of_a_newer_version_is_named(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ended / "run.yaml"
    settings.write_text(settings.read_text().replace("  margin_s:", "  sparkle: 1\n  margin_s:", 1))
    monkeypatch.setattr(sys, "argv", ["steersman", "status", str(ended)])
    with pytest.raises(BadSite, match="'sparkle'"):
        app(standalone_mode=False)


def test_watch_prints_lines_into_a_pipe(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `run` does: how far it is, and at the end the same table."""
    text = said(["watch", str(ended)], monkeypatch, capsys)
    assert "0 frames" in text.splitlines()[0]
    assert "wall time" in text
    assert text.endswith("goal: it is there\n")


def test_a_watch_ends_with_a_driver_that_was_killed(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its journal has no end, and nobody holds its lock."""
    lines = (ended / "journal.jsonl").read_text().splitlines(keepends=True)
    (ended / "journal.jsonl").write_text("".join(lines[:-1]))
    assert f"steersman resume {ended}" in said(["watch", str(ended)], monkeypatch, capsys)


def test_the_status_of_a_paused_run_says_who_drives_it_and_who_paused_it(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in a line of its own: at the end of the second is what to do."""
    lines = (ended / "journal.jsonl").read_text().splitlines(keepends=True)
    (ended / "journal.jsonl").write_text("".join(lines[:-1]))
    Journal(ended / "journal.jsonl").append(said_by("pause"))
    with Lock(ended).held():
        driver, paused = said(["status", str(ended)], monkeypatch, capsys).splitlines()[-2:]
    assert driver == f"running: {Owner(platform.node(), os.getpid(), 0, 0.0)}"
    assert f"steersman tell {ended} continue" in paused
    assert str(os.getpid()) not in paused.replace(str(ended), "")
    Journal(ended / "journal.jsonl").append(End(outcome="finished", reason="me ended the run"))
    assert "PAUSED" not in said(["status", str(ended)], monkeypatch, capsys)


def test_resume_of_a_finished_run_prints_the_object_that_it_would_have_printed(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(said(["resume", str(ended), "--json"], monkeypatch, capsys))
    assert (found["outcome"], found["run"]) == ("goal", str(ended))


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["fraems=9"], "did you mean 'frames'"),  # codespell:ignore
        (["frames=0"], "frames = 0"),
        (["frames=none"], "frames = 'none'"),
        (["frames"], "write --set key=value"),
        (["steps=7", "barrier_kT=x"], "barrier_kT"),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_line_and_a_finished_run_stays_as_it_is(
    assignments: list[str], words: str, ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (ended / "journal.jsonl").read_bytes()
    options = [word for assignment in assignments for word in ("--set", assignment)]
    monkeypatch.setattr(sys, "argv", ["steersman", "resume", str(ended), *options])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert end.value.code == 2
    assert words in error
    assert len(error.splitlines()) == 1
    assert (ended / "journal.jsonl").read_bytes() == before


def test_a_finished_run_goes_on_unless_its_new_budget_is_spent(ended: Path) -> None:
    """What is set is a person's word, with who and when; wall time does not run while nobody drives."""
    journal = Journal(ended / "journal.jsonl")
    journal.append(Hired(walker=0, slot=0), Start(start=0, seed=1), Began(walker=0, segment=0, start=0, first_row=0))
    journal.append(Published(walker=0, frames=500, segments=0), End(outcome="budget", reason="500 frames"))
    journal.sync()
    directory = run_directory.open_run(ended)
    with pytest.raises(BadInput):
        campaign.resume(directory, assignments=["frames=500"])
    made = campaign.resume(directory, assignments=["frames=501", "steps=7"])
    assert made.told is not None
    assert (made.told.verb, dict(made.told.settings)) == ("set", {"frames": 501, "steps": 7})
    assert "@" in made.told.who
    state = made.state
    ended_at = state.now
    made._record_session(0)
    assert not state.finished
    assert state.wishes.settings == {"frames": 501, "steps": 7}
    assert state.sessions[-1].after == ended_at
    assert made.rules.stop.reason(state.progress(state.now)) is None
    again = State(read(directory.journal))
    assert (again.wishes.settings, again.finished) == (state.wishes.settings, False)
    tell, session = [record for record in read(directory.journal) if isinstance(record, Tell | Session)][-2:]
    assert (tell.more, session.kind) == (1, "session"), "after a crash both are there, or none"


def test_a_parameter_that_is_set_while_a_run_ends_does_not_keep_it_from_ending() -> None:
    """Only a run that is over goes on by it, also one that a person finished."""
    story: list[Record] = [Session(host="here", pid=1), said_by("finish"), said_by("set")]
    assert State(story).wishes.finish == "me@here"
    over = State([*story, End(outcome="finished", reason="told"), said_by("set")])
    assert (over.wishes.finish, over.finished) == ("", False)


def said_by(verb: str) -> Tell:
    return Tell(id="1", who="me@here", verb=verb, text=verb)


@pytest.mark.parametrize(("outcome", "drawn"), [("interrupted", 0), ("budget", 1)])
def test_who_stops_a_run_does_not_wait_for_its_report(
    outcome: str, drawn: int, ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who does not wait for one that is drawn ends at once."""
    state, found = State([Run(slots=1), Session(host="here", pid=1), Hired(walker=0, slot=0)]), []

    def draw(directory: RunDirectory) -> None:
        found.append(directory)
        raise KeyboardInterrupt

    def leave(code: int) -> None:
        raise SystemExit(code)

    state.apply(Start(start=0, seed=0))
    state.apply(Began(walker=0, segment=0, start=0, first_row=0))
    state.apply(End(outcome=outcome, reason="a signal"))
    monkeypatch.setattr("steersman.dashboard.report.write_report", draw)
    monkeypatch.setattr("steersman.calls.start.write_crate", lambda *given: None)
    monkeypatch.setattr(campaigns, "_leave", leave)
    made: Any = SimpleNamespace(state=state, rules=SimpleNamespace(stop=None))
    with pytest.raises(SystemExit) as end:
        campaigns._finish(RunDirectory(ended), made, report=True, require_goal=False, as_json=False)
    assert (end.value.code, len(found)) == (130, drawn)
