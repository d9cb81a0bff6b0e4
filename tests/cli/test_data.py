"""`report`, `ls`, `diff`, `--version` and the driver's log."""

import importlib.metadata
import json
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from steersman.cli.__main__ import main
from steersman.engine.log import logged
from steersman.journal import file, manifest
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Blame, End, Metrics, Note, Session
from steersman.journal.records import Run as RunRecord
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from tests.dashboard.kept import kept
from tests.data.conftest import molecule, run, simulated  # noqa: F401 (fixtures)

Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What `steersman WORDS` prints on standard output; it must end with this code."""

    def call(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["steersman", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code or 0) == code
        return capsys.readouterr().out

    return call


def test_the_version_is_that_of_the_package(said: Said) -> None:
    assert importlib.metadata.version("steersman") in said("--version")


@pytest.mark.slow
def test_a_report_made_again_leaves_the_seal_whole_and_hides_no_other_change(
    request: pytest.FixtureRequest, said: Said
) -> None:
    directory: RunDirectory = request.getfixturevalue("run")
    said("report", directory.path)
    assert kept(directory)["state"]["ended"]
    manifest.seal(directory)
    directory.report.unlink()
    (directory.path / "environment.json").write_text("{}")
    said("report", directory.path)
    assert directory.report.exists()
    assert [name for name, _ in manifest.changes(directory)] == ["environment.json"]


def test_a_folder_in_which_nothing_can_be_written_is_named_before_anything_is_analysed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory: RunDirectory = request.getfixturevalue("run")
    for folder in (directory.journal, directory.journal / "below", Path("/proc/nowhere")):
        monkeypatch.setattr(sys, "argv", ["steersman", "analyse", str(directory.path), "--out", str(folder)])
        with pytest.raises(SystemExit, match="2"):
            main()
        assert capsys.readouterr().err.startswith(f"error: {folder}: this folder cannot be written: ")


@pytest.mark.parametrize("words", [["--states", "1"], ["AGAIN"]])
def test_an_analysis_that_would_say_too_much_is_refused(
    words: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one state; of a run that is given twice, here by another spelling."""
    path = request.getfixturevalue("run").path
    words = [str(path / ".." / path.name) if word == "AGAIN" else word for word in words]
    monkeypatch.setattr(sys, "argv", ["steersman", "analyse", str(path), *words])
    with pytest.raises(SystemExit, match="2"):
        main()


def test_ls_lists_what_lies_in_a_folder_and_a_run_that_cannot_be_read_costs_its_line_only(
    request: pytest.FixtureRequest, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory: RunDirectory = request.getfixturevalue("run")
    folder = directory.path.parent
    (folder / "no-run").mkdir()
    open_ended = folder / "open-ended"
    open_ended.mkdir()
    Journal(open_ended / "journal.jsonl").append(
        RunRecord(workflow="x"),
        Session(host="here", pid=1),
        Metrics(values={"share": 3.0}),
        Metrics(values={"share": 1.0}),
    )
    with monkeypatch.context() as newer:
        (folder / "newer").mkdir()
        newer.setattr(Note, "format", file.VERSION + 1)
        file.rewrite(folder / "newer" / "journal.jsonl", [Note(text="from the future")])
    found = {each["name"]: each for each in json.loads(said("ls", folder, "--json"))["runs"]}
    assert found.keys() == {"fold-0001", "open-ended", "newer"}
    assert (found["fold-0001"]["state"], found["fold-0001"]["frames"]) == ("goal", 20)
    assert (found["open-ended"]["state"], found["open-ended"]["value"]) == ("not driven", 1.0)
    assert found["newer"]["state"].startswith("cannot be read")
    assert found["fold-0001"]["bytes"] == sum(f.stat().st_size for f in directory.path.rglob("*") if f.is_file())
    lines = said("ls", folder).splitlines()
    assert len(lines) == 4
    assert said("ls", folder / "no-run") == ""
    said("ls", folder / "nowhere", code=2)


def test_an_empty_journal_is_said_to_be_empty(request: pytest.FixtureRequest, said: Said) -> None:
    directory: RunDirectory = request.getfixturevalue("run")
    directory.journal.write_bytes(b"")
    said("status", directory.path, code=6)
    said("status", directory.path, "--json", code=6)
    (listed,) = json.loads(said("ls", directory.path.parent, "--json"))["runs"]
    assert listed["state"] == "cannot be read: its journal is empty"
    assert listed["age_s"] < 3600


def test_diff_tells_what_differs_and_nothing_else(request: pytest.FixtureRequest, said: Said, tmp_path: Path) -> None:
    one: RunDirectory = request.getfixturevalue("run")
    other = RunDirectory(tmp_path / "other")
    shutil.copytree(one.path, other.path)
    assert said("diff", one.path, other.path) == "nothing differs\n"
    settings = yaml.safe_load(one.settings_file.read_text())
    settings["params"]["latent"], settings["seed"], settings["site"]["lease_s"] = 3, 2, 99.0
    other.settings_file.write_text(yaml.safe_dump(settings))
    other.workflow.write_text(one.workflow.read_text() + "# mine\n")
    journal = Journal(other.journal)
    journal.append(Metrics(values={"coverage": 6.0}))
    journal.close()
    found = json.loads(said("diff", one.path, other.path, "--json"))
    assert found["params"] == {"latent": [2, 3]}
    assert found["settings"].keys() == {"seed", "site.lease_s"}
    assert found["code"][-1] == "+# mine"
    assert found["outcome"]["coverage"] == [5.0, 6.0]
    assert found["versions"] == {}
    text = said("diff", one.path, other.path)
    assert "latent" in text
    assert "+# mine" in text
    said("diff", one.path, tmp_path, code=2)


def test_diff_compares_the_modules_beside_the_workflow_file(
    request: pytest.FixtureRequest, said: Said, tmp_path: Path
) -> None:
    one: RunDirectory = request.getfixturevalue("run")
    modules = one.path / "workflow"
    (modules / "forces").mkdir(parents=True)
    (modules / "steersman_workflow.py").symlink_to(Path("..", "workflow.py"))
    for name in ("same.py", "forces/near.py", "gone.py"):
        (modules / name).write_text(f"NAME = {name!r}\n")
    other = RunDirectory(shutil.copytree(one.path, tmp_path / "other", symlinks=True))
    assert said("diff", one.path, other.path) == "nothing differs\n"
    (other.path / "workflow" / "forces" / "near.py").write_text("NAME = 'far'\n")
    (other.path / "workflow" / "gone.py").unlink()
    code = json.loads(said("diff", one.path, other.path, "--json"))["code"]
    assert [line for line in code if not line.startswith("@@")] == [
        f"--- {one.path}/workflow/forces/near.py", f"+++ {other.path}/workflow/forces/near.py",
        "-NAME = 'forces/near.py'", "+NAME = 'far'",
        f"--- {one.path}/workflow/gone.py", f"+++ {other.path}/workflow/gone.py", "-NAME = 'gone.py'",
    ]  # fmt: skip


def test_the_drivers_log_holds_what_was_recorded_warnings_and_the_traceback_of_the_end(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())

    def drive() -> None:
        recorder.record(RunRecord(workflow="x"))
        recorder.record(Blame(start=1, reason="it failed twice"))
        recorder.record(End(outcome="goal", reason="there"))
        logging.getLogger("parsl.somewhere").info("not of interest")
        logging.getLogger("parsl.somewhere").warning("a block is late")
        raise ZeroDivisionError

    before = logging.getLogger().handlers[:]
    with pytest.raises(ZeroDivisionError), logged(log):
        drive()
    assert logging.getLogger().handlers == before
    text = log.read_text()
    for words in ("workflow=x", "WARNING steersman.journal: blame", "outcome=goal", "a block is late", "in drive"):
        assert words in text
    assert "not of interest" not in text
