"""What is written beside a seal is no part of it."""

from pathlib import Path

import pytest

from steersman.data.verify import verify
from steersman.journal import manifest
from steersman.journal.file import Journal
from steersman.journal.records import End, Run, Session
from steersman.journal.run_directory import RunDirectory, sha256
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
