"""What is written beside a seal is no part of it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from steersman.data.listing import listed
from steersman.data.verify import verify
from steersman.journal import manifest, run_directory
from steersman.journal.errors import BadDirectory
from steersman.journal.file import Journal
from steersman.journal.records import End, Run, Session
from steersman.journal.run_directory import RunDirectory, create, open_run, sha256
from steersman.system.files import PARTIAL


def test_a_file_that_goes_while_a_run_is_sealed_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver keeps its lock fresh, and who looks at it writes a file for a moment."""
    for name in ("journal.jsonl", "passing", f"driver.json.1{PARTIAL}"):
        (tmp_path / name).write_text(name)

    def goes(path: Path, *folder: Path) -> str:
        (tmp_path / "passing").unlink(missing_ok=True)
        return sha256(path)

    monkeypatch.setattr(manifest, "sha256", goes)
    directory = RunDirectory(tmp_path)
    manifest.seal(directory)
    (tmp_path / f"driver.json.1{PARTIAL}").unlink()
    (tmp_path / f"driver.json.2{PARTIAL}").touch()
    assert list(manifest.changes(directory)) == []


@pytest.mark.parametrize(("outcome", "problems"), [("interrupted", []), ("goal", ["manifest.sha256"])])
def test_a_run_that_was_stopped_at_once_has_no_seal_and_is_whole(
    tmp_path: Path, outcome: str, problems: list[str]
) -> None:
    """A second Ctrl-C leaves no time for a seal; one that finished has lost it."""
    directory = RunDirectory(tmp_path)
    directory.settings_file.write_text("{}")
    files = {directory.settings_file.name: sha256(directory.settings_file)}
    Journal(directory.journal).append(Run(files=files), Session(host="here", pid=1), End(outcome=outcome, reason=""))
    assert [problem.where for problem in verify(directory)] == problems
    manifest.seal(directory)
    assert verify(directory) == []
    (tmp_path / "added").touch()
    assert [problem.where for problem in verify(directory)] == ["added"]
    (tmp_path / "added").unlink()
    (tmp_path / "link").symlink_to(directory.settings_file)
    manifest.seal(directory)
    directory.settings_file.write_text("{a: 1}")
    assert [problem.where for problem in verify(directory)] == [directory.settings_file.name], "once, without its link"


@pytest.fixture
def nobody() -> Iterator[None]:
    """Who reads is no superuser, to whom nothing is closed."""
    before = os.getresuid()
    if before[0] == 0:
        os.setresuid(65534, 65534, 0)
    yield
    os.setresuid(*before)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[RunDirectory]:
    """A run that has ended, where anybody may look."""
    with TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        directory = create(Path(name), "run")
        directory.unborn.unlink()
        (directory.path / "scores.zarr" / "0001").mkdir(parents=True)
        directory.settings_file.write_text("{}")
        files = {directory.settings_file.name: sha256(directory.settings_file)}
        Journal(directory.journal).append(Run(files=files), Session(host="here", pid=1), End(outcome="goal", reason=""))
        directory.bus.chmod(0o700)
        (directory.bus / "bus.json").touch()
        manifest.seal(directory)
        yield directory


def test_a_run_of_somebody_else_is_whole_though_its_bus_is_closed(shared: RunDirectory, nobody: None) -> None:
    assert verify(open_run(shared.path)) == []
    assert [each.frames for each in listed(shared.path.parent)] == [0]


@pytest.mark.parametrize("part", ["journal.jsonl", "run.yaml", "scores.zarr", "scores.zarr/0001", "manifest.sha256"])
def test_what_a_reader_may_not_read_is_neither_missing_nor_damaged(
    shared: RunDirectory, part: str, request: pytest.FixtureRequest
) -> None:
    (shared.path / part).chmod(0)
    request.getfixturevalue("nobody")
    with pytest.raises(BadDirectory):
        verify(shared)
    if "/" not in part:
        with pytest.raises(BadDirectory):
            open_run(shared.path)
        assert [each.frames for each in listed(shared.path.parent)] == [None]


def test_a_folder_that_is_closed_is_listed(shared: RunDirectory, request: pytest.FixtureRequest) -> None:
    shared.path.chmod(0)
    request.getfixturevalue("nobody")
    (line,) = listed(shared.path.parent)
    assert (line.name, line.workflow, line.frames) == ("run-0001", "?", None)


def test_the_commit_of_the_engine_is_none_of_another_checkout_and_says_when_files_were_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.check_output(["git", "-C", str(tmp_path), *who, *words], text=True).strip()

    ours = tmp_path / "ours.py"
    monkeypatch.setattr(run_directory, "__file__", str(ours))
    git("init", "-q")
    git("commit", "-qm", "theirs", "--allow-empty")
    ours.touch()
    assert run_directory.environment()["git_commit"] is None
    git("add", "ours.py")
    git("commit", "-qm", "ours")
    assert run_directory.environment()["git_commit"] == git("rev-parse", "HEAD")
    ours.write_text("changed")
    assert run_directory.environment()["git_commit"] == git("rev-parse", "HEAD") + "-dirty"
